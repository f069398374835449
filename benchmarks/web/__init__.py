"""What pages in a browser cost."""
