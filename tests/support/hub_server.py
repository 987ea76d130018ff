"""A small Hugging Face Hub on this machine, for the real `huggingface_hub` and `datasets`.

It holds dataset repositories in memory: branches, commits with their whole trees, files in LFS. It
knows the endpoints that uploads, downloads and `load_dataset` use, and takes writes only with the
token `TOKEN`.

    hub     a fixture: a `Hub`; huggingface_hub gets a cache of its own
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

TOKEN = "hf_testing_token"
_LFS_FROM = 4_000
"""Files of this size or more are sent to LFS. (The real Hub decides by content and size.)"""


@dataclasses.dataclass
class Repository:
    private: bool
    branches: dict[str, str] = dataclasses.field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = dataclasses.field(default_factory=dict)
    messages: list[str] = dataclasses.field(default_factory=list)
    large: set[str] = dataclasses.field(default_factory=set)
    """Paths that were committed as LFS files."""

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        sha = hashlib.sha1(f"{len(self.commits)}{sorted(files)}".encode()).hexdigest()
        self.commits[sha], self.branches[branch] = files, sha
        self.messages.append(message)
        return sha

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.branches["main"]]


class Hub:
    def __init__(self) -> None:
        self.url = ""
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.failures: list[int] = []
        """Statuses for the next requests, instead of an answer."""

    async def app(self, scope, receive, send) -> None:
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response

        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        path = unquote(scope["raw_path"].decode()) if b"%" in scope["raw_path"] else scope["path"]
        self.requests.append(f"{request.method} {path}")
        body = await request.body()
        if self.failures:
            answer = Response(status_code=self.failures.pop(0))
        else:
            writes = request.headers.get("authorization") == f"Bearer {TOKEN}"
            try:
                answer = self._answer(request, path, body, writes)
            except _Refused as refused:
                answer = JSONResponse(
                    {"error": refused.message}, refused.status, {"X-Error-Code": refused.code}
                )
        await answer(scope, receive, send)

    def _answer(self, request, path: str, body: bytes, writes: bool):
        from starlette.responses import JSONResponse, Response

        parts = path.strip("/").split("/")
        match request.method, parts:
            case "PUT", ["lfs", oid]:
                assert hashlib.sha256(body).hexdigest() == oid
                self.objects[oid] = body
                return Response()
            case "POST", ["api", "validate-yaml"]:
                return JSONResponse({"errors": [], "warnings": []})
            case "POST", ["api", "repos", "create"]:
                _check(writes, 401, "", "Invalid username or password.")
                asked = json.loads(body)
                name = f"{asked.get('organization', 'me')}/{asked['name']}"
                assert asked["type"] == "dataset"
                answer = {"url": f"{self.url}/datasets/{name}"}
                if name in self.repositories:
                    return JSONResponse(answer, 409)
                private = asked.get("private") or asked.get("visibility") == "private"
                made = self.repositories[name] = Repository(bool(private))
                made.commit("main", {".gitattributes": b""}, "initial commit")
                return JSONResponse(answer)
            case "POST", ["datasets", who, name, "info", "lfs", "objects", "batch"]:
                self._repository(who, name.removesuffix(".git"), writes)
                objects = [
                    {
                        "oid": o["oid"],
                        "size": o["size"],
                        "actions": {"upload": {"href": f"{self.url}/lfs/{o['oid']}"}},
                    }
                    for o in json.loads(body)["objects"]
                ]
                return JSONResponse({"transfer": "basic", "objects": objects})
            case _, ["api", "datasets", who, name, *rest]:
                repository = self._repository(who, name, writes)
                return self._of_repository(request, f"{who}/{name}", repository, rest, body, writes)
            case "GET" | "HEAD", ["datasets", who, name, "resolve", revision, *rest]:
                repository = self._repository(who, name, writes)
                sha, files = self._at(repository, revision)
                file = "/".join(rest)
                _check(file in files, 404, "EntryNotFound", "Entry not found")
                etag = f'"{hashlib.sha256(files[file]).hexdigest()}"'
                headers = {"X-Repo-Commit": sha, "ETag": etag, "Accept-Ranges": "bytes"}
                return _content(request, files[file], headers)
        raise _Refused(404, "", f"No such endpoint here: {request.method} {path}")

    def _of_repository(self, request, full_name, repository, rest, body, writes):
        from starlette.responses import JSONResponse

        match request.method, rest:
            case "GET", [] | ["revision", _]:
                sha, files = self._at(repository, rest[1] if rest else "main")
                siblings = [{"rfilename": file} for file in sorted(files)]
                return JSONResponse(
                    {"id": full_name, "sha": sha, "private": repository.private, "tags": [],
                     "siblings": siblings}
                )  # fmt: skip
            case "POST", ["branch", branch]:
                _check(writes, 403, "", "Forbidden")
                _check(branch not in repository.branches, 409, "", "Reference already exists")
                repository.branches[branch] = repository.branches["main"]
                return JSONResponse({})
            case "POST", ["preupload", revision]:
                _check(writes, 403, "", "Forbidden")
                _, files = self._at(repository, revision)
                modes = [
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if file["size"] >= _LFS_FROM else "regular",
                        "shouldIgnore": False,
                        "oid": _remote_oid(repository, files, file["path"]),
                    }
                    for file in json.loads(body)["files"]
                ]
                return JSONResponse({"files": modes})
            case "POST", ["commit", revision]:
                _check(writes, 403, "", "Forbidden")
                return JSONResponse(self._commit(full_name, repository, revision, body))
            case "GET", ["tree", revision, *folder]:
                _, files = self._at(repository, revision)
                inside = "".join(f"{part}/" for part in folder)
                found = [file for file in sorted(files) if file.startswith(inside)]
                _check(bool(found), 404, "EntryNotFound", f"{inside} does not exist")
                recursive = request.query_params.get("recursive", "").lower() == "true"
                return JSONResponse(_tree(repository, files, found, inside, recursive))
            case "POST", ["paths-info", revision]:
                from urllib.parse import parse_qs

                _, files = self._at(repository, revision)
                kind = request.headers.get("content-type", "")
                asked = json.loads(body) if "json" in kind else parse_qs(body.decode())
                found = [_file(repository, p, files[p]) for p in asked["paths"] if p in files]
                return JSONResponse(found)
        raise _Refused(404, "", f"No such endpoint here: {request.method} {'/'.join(rest)}")

    def _commit(self, full_name, repository, revision, body) -> dict[str, str]:
        sha, files = self._at(repository, revision)
        files = dict(files)
        message = ""
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            match item["key"]:
                case "header":
                    parent = value.get("parentCommit", sha)
                    _check(parent == sha, 412, "", "A commit has happened since.")
                    message = value["summary"]
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.objects[value["oid"]]
                    repository.large.add(value["path"])
                case "deletedFile":
                    del files[value["path"]]
                case other:
                    raise AssertionError(other)
        oid = repository.commit(revision, files, message)
        return {
            "commitUrl": f"{self.url}/datasets/{full_name}/commit/{oid}",
            "commitOid": oid,
            "hookOutput": "",
            "success": True,
        }

    def _repository(self, who: str, name: str, writes: bool) -> Repository:
        found = self.repositories.get(f"{who}/{name}")
        if found is None or (found.private and not writes):
            raise _Refused(401 if found else 404, "RepoNotFound", "Repository not found")
        return found

    @staticmethod
    def _at(repository: Repository, revision: str) -> tuple[str, dict[str, bytes]]:
        sha = repository.branches.get(revision, revision)
        _check(sha in repository.commits, 404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha, repository.commits[sha]


class _Refused(Exception):  # noqa: N818
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message


def _check(holds: bool, status: int, code: str, message: str) -> None:
    if not holds:
        raise _Refused(status, code, message)


def _oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _remote_oid(repository: Repository, files: dict[str, bytes], path: str) -> str | None:
    if path not in files:
        return None
    return (
        hashlib.sha256(files[path]).hexdigest() if path in repository.large else _oid(files[path])
    )


def _file(repository: Repository, path: str, data: bytes) -> dict:
    entry = {"type": "file", "path": path, "size": len(data), "oid": _oid(data)}
    if path in repository.large:
        sha256 = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 130}
    return entry


def _tree(repository, files, found, inside, recursive) -> list[dict]:
    entries = []
    folders = set()
    for path in found:
        parts = path.removeprefix(inside).split("/")[:-1]
        for depth in range(1, len(parts) + 1 if recursive else min(len(parts), 1) + 1):
            folders.add(inside + "/".join(parts[:depth]))
        if recursive or not parts:
            entries.append(_file(repository, path, files[path]))
    made = [{"type": "directory", "path": path, "oid": _oid(path.encode())} for path in folders]
    return entries + sorted(made, key=lambda entry: entry["path"])


def _content(request, data: bytes, headers: dict[str, str]):
    from starlette.responses import Response

    wanted = request.headers.get("range", "")
    if request.method == "GET" and wanted.startswith("bytes="):
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        end = int(last) + 1 if last else len(data)
        part = data[int(first) : end]
        span = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        return Response(part, 206, {**headers, "Content-Range": span})
    return Response(data, 200, headers)


@contextlib.contextmanager
def served(hub: Hub) -> Iterator[Hub]:
    """Serve a hub on a port of this machine until the block ends."""
    import uvicorn

    config = uvicorn.Config(hub.app, port=0, log_level="error", lifespan="off", interface="asgi3")
    server = uvicorn.Server(config)
    sockets = [config.bind_socket()]
    sockets[0].listen()  # Whoever connects before the server has started waits for it.
    hub.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[Hub]:
    pytest.importorskip("uvicorn")
    constants = pytest.importorskip("huggingface_hub.constants")
    # These are read from the environment once, when the package is imported.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with served(Hub()) as made:
        yield made
