"""Another project may have installed an older SDK of MCP: that is one clear line."""

import pytest

from envs.adapters.mcp import sdk as module


@pytest.mark.parametrize(
    ("installed", "is_enough"), [("1.30.0", False), ("2.1.9", False), ("2.2.0", True), ("2.10", True)]
)
def test_an_older_package_is_refused_with_the_command_that_installs_a_newer_one(monkeypatch, installed, is_enough):
    monkeypatch.setattr(module, "import_extra", lambda name, extra: (name, extra))
    monkeypatch.setattr(module, "version", lambda name: installed)
    if is_enough:
        assert module.sdk("mcp.server") == ("mcp.server", "mcp")
        return
    with pytest.raises(ImportError, match=rf"mcp {installed} is installed, 2\.2 or newer is needed: pip install"):
        module.sdk("mcp.server")
