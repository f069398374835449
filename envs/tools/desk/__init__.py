"""What desks share: cases, a customer who follows rules or is another program, and the environment around both."""
