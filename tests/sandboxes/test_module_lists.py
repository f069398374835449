"""The lists of this project's modules that exist inside sandboxes are those that are imported there, no more and no less."""

from __future__ import annotations

import json
import subprocess
import sys

from sandboxes.docker.container import _INSIDE
from sandboxes.local.candidate import _OURS
from tests.support.paths import ROOT

OURS = "print(json.dumps(sorted(name for name in sys.modules if name.split('.')[0] in PROJECT)))"
PROJECT = ("sandboxes", "envs", "agents", "rl", "tests")


def modules_after(script: str) -> list[str]:
    """Names of the modules of this project that a new process has loaded after `script`."""
    program = f"import json, sys\nPROJECT = {PROJECT!r}\n{script}\n{OURS}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_candidate_of_local_finds_none_of_the_modules_of_its_zygote() -> None:
    assert modules_after("import sandboxes.local.zygote") == sorted(_OURS)


def test_a_candidate_of_docker_finds_none_of_the_modules_of_its_warden() -> None:
    assert {*modules_after(EMPTY_PACKAGES + "import sandboxes.docker.agent")} <= {*_INSIDE.split()}


def test_a_container_gets_the_modules_that_its_agent_imports() -> None:
    script = EMPTY_PACKAGES + "import sandboxes.docker.agent, sandboxes.docker.dispatch"
    assert modules_after(script) == sorted(_INSIDE.split())


EMPTY_PACKAGES = """
import types
for name in ("sandboxes", "sandboxes.local", "sandboxes.local.confinement", "sandboxes.docker"):
    package = types.ModuleType(name)
    package.__path__ = [name.replace(".", "/")]
    sys.modules[name] = package
"""  # as `boot` has them: the modules of a package, without its `__init__`
