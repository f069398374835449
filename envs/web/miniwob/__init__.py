"""MiniWoB++ (Liu et al. 2018, arXiv:1802.08802): the pages of the package `miniwob` in a browser (extra `web`)."""
