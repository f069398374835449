"""The Model Context Protocol, both ways: servers as environments, environments as servers (extra `mcp`)."""
