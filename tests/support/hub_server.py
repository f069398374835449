"""A stand-in for the Hugging Face Hub on loopback: accounts, repositories, commits with large files, and downloads."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_test"
COMMIT = "0" * 40


class HubServer(ThreadingHTTPServer):
    """Serves the part of the Hub's interface that uploads and downloads of models use.

    Attributes:
        repositories: Files by path, by repository id.
        private: Ids of private repositories.
        commits: Number of commits that were made.
        refuse_commits: Answer commits with status 500.

    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.commits = 0
        self.refuse_commits = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running() -> Iterator[HubServer]:
    with HubServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/api/whoami-v2":
            return self._json({"name": "ada", "type": "user", "orgs": []}) if self._is_known() else self._error(401)
        if path.startswith("/api/models/"):
            repository = path.removeprefix("/api/models/").partition("/revision/")[0]
            names = self.server.repositories.get(repository)
            if names is None:
                return self._error(404)
            return self._json({"id": repository, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]})
        repository, _, name = path.strip("/").partition("/resolve/")
        content = self.server.repositories.get(repository, {}).get(name.partition("/")[2])
        if content is None:
            return self._error(404, {"X-Error-Code": "EntryNotFound"})
        digest = hashlib.sha256(content).hexdigest()
        self._answer(200, content, {"ETag": f'"{digest}"', "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path, body = self.path.partition("?")[0], self._body()
        if not self._is_known():
            return self._error(401)
        if path == "/api/validate-yaml":
            return self._json({"warnings": [], "errors": []})
        if path == "/api/repos/create":
            request = json.loads(body)
            repository = f"{request.get('organization') or 'ada'}/{request['name']}"
            self.server.repositories.setdefault(repository, {})
            if request.get("private") or request.get("visibility") == "private":
                self.server.private.add(repository)
            return self._json({"url": f"{self.server.address}/{repository}", "id": repository})
        if "/preupload/" in path:
            names = [entry["path"] for entry in json.loads(body)["files"]]
            modes = {name: "lfs" if name.endswith(".safetensors") else "regular" for name in names}
            files = [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in modes.items()]
            return self._json({"files": files})
        if path.endswith("/info/lfs/objects/batch"):
            return self._json({"transfer": "basic", "objects": [self._upload(o) for o in json.loads(body)["objects"]]})
        if "/commit/" in path and not self.server.refuse_commits:
            return self._commit(path.removeprefix("/api/models/").partition("/commit/")[0], body)
        self._error(500 if "/commit/" in path else 404)

    def do_PUT(self) -> None:
        self.server.objects[self.path.rpartition("/")[2]] = self._body()
        self._answer(200, b"")

    def _upload(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "actions": {"upload": {"href": f"{self.server.address}/objects/{entry['oid']}"}}}

    def _commit(self, repository: str, body: bytes) -> None:
        files = self.server.repositories[repository]
        for line in body.decode().splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
        self.server.commits += 1
        address = f"{self.server.address}/{repository}/commit/{COMMIT}"
        self._json({"success": True, "commitOid": COMMIT, "commitUrl": address})

    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, headers: dict[str, str] | None = None) -> None:
        self._answer(status, b'{"error": "refused by the stand-in"}', headers or {})

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
