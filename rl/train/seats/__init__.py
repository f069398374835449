"""Who plays which seats: the policies that are trained, by role, others that are not, and the runners they meet in."""
