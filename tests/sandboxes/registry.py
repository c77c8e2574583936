"""A registry on this machine that serves one image, or refuses: what an engine sees when it pulls."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar archive of executable files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def image_config(layer: bytes, architecture: str) -> bytes:
    """An image's configuration; layer: its one layer, not compressed."""
    layers = {"type": "layers", "diff_ids": [digest(layer)]}
    return json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": layers}).encode()


def digest(data: bytes) -> str:
    """As registries write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@contextmanager
def registry(*, refuse: int = 0, code: str = "", architecture: str = "", files: dict[str, bytes]) -> Iterator[str]:
    """Serve an image of `files`; yields the name to pull it by. refuse, code: answer so instead.

    architecture: offer the image for this one alone.
    """
    layer = tar_of(files)
    packed = gzip.compress(layer, mtime=0)
    config = image_config(layer, architecture or "amd64")
    blobs = {digest(packed): packed, digest(config): config}
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _entry("application/vnd.docker.container.image.v1+json", config),
            "layers": [_entry("application/vnd.docker.image.rootfs.diff.tar.gzip", packed)],
        }
    ).encode()
    offered = {**_entry(MANIFEST, manifest), "platform": {"architecture": architecture, "os": "linux"}}
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [offered]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            if self.path == "/v2/":
                self._answer(200, b"{}", "application/json")
            elif refuse:
                fault = json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}).encode()
                self._answer(refuse, fault, "application/json")
            elif name in blobs:
                self._answer(200, blobs[name], "application/octet-stream")
            elif architecture and name != digest(manifest):
                self._answer(200, index, INDEX)
            else:
                self._answer(200, manifest, MANIFEST)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}/some/image:1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entry(kind: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(data), "digest": digest(data)}
