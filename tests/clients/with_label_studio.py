"""A real Label Studio takes what `run.py` exported, and exports a person's annotations back. Runs in its own .venv.

``python with_label_studio.py FOLDER``: FOLDER holds ``tasks.json``, ``texts.json``, their interfaces, ``expected.json``
(item_id -> category) and ``changes.json`` (item_id -> what a person chooses instead).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import requests
from label_studio_sdk.label_interface import LabelInterface

STARTS_WITHIN = 400  # seconds; it first makes its database


class Server:
    """A Label Studio of our own, with a new database, on a free port; ends with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex(20)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Token {self.token}"

    def __enter__(self) -> Server:
        home = self.folder / "label-studio"
        home.mkdir()
        environment = {
            **os.environ,
            "HOME": str(home),
            "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
            "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(self.folder),
            "COLLECT_ANALYTICS": "false",
            "LATEST_VERSION_CHECK": "false",
        }
        user = ("--username", "someone@example.org", "--password", secrets.token_hex(8), "--user-token", self.token)
        options = ("--no-browser", "--data-dir", home, "--port", self.port, "--internal-host", "127.0.0.1", *user)
        command = [Path(sys.executable).with_name("label-studio"), "start", *options, "--enable-legacy-api-token"]
        self.log = (self.folder / "label-studio.log").open("w")
        self.process = subprocess.Popen(
            list(map(str, command)), env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )
        until = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.session.get(f"{self.url}/api/projects", timeout=20).ok:
                    return self
            except requests.RequestException:
                pass
            time.sleep(2)
        self.__exit__()
        raise SystemExit("Label Studio did not start:\n" + (self.folder / "label-studio.log").read_text()[-3000:])

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = self.session.request(method, self.url + path, timeout=120, **options)
        assert answer.ok, (path, answer.status_code, answer.text[:2000])
        return answer.json()


def label(server: Server, folder: Path, name: str) -> None:
    """Make a project of an export, choose what the predictions say or the changes, and export it."""
    expected: dict[str, str] = json.loads((folder / "expected.json").read_text())
    changes: dict[str, str] = json.loads((folder / "changes.json").read_text())
    interface = (folder / f"{name}-interface.xml").read_text()
    tasks = json.loads((folder / f"{name}.json").read_text())
    parsed = LabelInterface(interface)
    parsed.validate()
    assert all(parsed.validate_prediction(task["predictions"][0]) for task in tasks)
    project = server.call("POST", "/api/projects", json={"title": name, "label_config": interface})["id"]
    with (folder / f"{name}.json").open("rb") as file:
        sent = server.call("POST", f"/api/projects/{project}/import", files={"file": (f"{name}.json", file)})
    assert (sent["task_count"], sent["prediction_count"]) == (len(expected), len(expected)), sent
    if name == "tasks":
        where = {"project": project, "path": str(folder / "photos"), "use_blob_urls": True}
        server.call("POST", "/api/storages/localfiles", json=where)
    kept = server.call("GET", f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true")
    shown = 0
    for task in kept:
        (prediction,) = server.call("GET", f"/api/predictions?task={task['id']}")
        result, item = prediction["result"], task["data"]["item_id"]
        told = task["data"].get("class_names", {})
        (choice,) = result[0]["value"]["choices"]
        assert told.get(choice, choice) == expected[item], (choice, expected[item])
        if name == "tasks":
            picture = server.session.get(server.url + task["data"]["image"], timeout=60)
            shown += picture.ok and picture.headers["Content-Type"].startswith("image/")
        if item in changes:
            result[0]["value"]["choices"] = [changes[item]]
        server.call("POST", f"/api/tasks/{task['id']}/annotations/", json={"result": result})
    for form, ending in (("JSON", ""), ("JSON_MIN", "-min")):
        content = server.call("GET", f"/api/projects/{project}/export?exportType={form}")
        (folder / f"label-studio-{name}{ending}.json").write_text(json.dumps(content))
    pictures = f", {shown} images served" if name == "tasks" else ""
    print(f"label-studio {version('label-studio')}: {name}, {len(kept)} tasks with predictions{pictures}")
    assert shown == (len(expected) if name == "tasks" else 0)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with Server(folder) as server:
        for name in ("tasks", "texts"):
            label(server, folder, name)
