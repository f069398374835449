"""Small worlds in which what credit a method gives, and what luck and shared states do to it, can be told apart."""
