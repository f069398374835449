"""Pages: environments whose policy reads a web page and acts on its elements, in a real browser or on the DOM alone."""
