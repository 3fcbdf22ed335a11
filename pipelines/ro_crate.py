"""A run directory as a Process Run Crate 0.5 (RO-Crate 1.1): JSON-LD that says what ran, with what, and what it made."""
from __future__ import annotations

from pathlib import Path

from pipelines.hashing import hash_file
from pipelines.run_directory import read_manifest

NAME = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
FAILED = "FailedActionStatus"
STATUS = {"done": "CompletedActionStatus", "failed": FAILED, "interrupted": FAILED, "running": "ActiveActionStatus"}
LEFT_OUT = ("checkpoints", "cache", "lock", NAME)
TYPES = {".json": "application/json", ".jsonl": "application/jsonl", ".yaml": "application/yaml", ".txt": "text/plain",
         ".patch": "text/x-diff", "": "text/plain"}


def crate(path: Path) -> dict:
    """The whole description."""
    manifest = read_manifest(path)
    made = [file for file in sorted(path.rglob("*")) if file.is_file() and file.relative_to(path).parts[0] not in LEFT_OUT]
    files = [file_entity(file, path) for file in made]
    results = [one for one in files if one["@id"].startswith(("model/", "metrics", "stages/generate", "stages/evaluate"))]
    inputs = [input_entity(name, value) for name, value in manifest["hashes"].items() if value and name in ("data", "model", "tokenizer")]
    action = action_entity(manifest, inputs, results)
    root = {"@id": "./", "@type": "Dataset", "name": f"hierarchos {manifest['pipeline']} {manifest['id']}",
            "description": "A run: " + " ".join(manifest.get("command", [])), "datePublished": manifest.get("ended") or manifest["started"],
            "license": "not stated", "conformsTo": {"@id": PROFILE}, "mentions": {"@id": action["@id"]},
            "hasPart": [{"@id": one["@id"]} for one in files]}
    descriptor = {"@id": NAME, "@type": "CreativeWork", "about": {"@id": "./"}, "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"}}
    profile = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    graph = [descriptor, root, profile, software(manifest), *libraries(manifest), action, *inputs, *files]
    return {"@context": ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"], "@graph": graph}


def file_entity(file: Path, base: Path) -> dict:
    """A file with its size and hash."""
    return {"@id": file.relative_to(base).as_posix(), "@type": "File", "name": file.name, "contentSize": str(file.stat().st_size),
            "sha256": hash_file(file), "encodingFormat": TYPES.get(file.suffix, "application/octet-stream")}


def input_entity(name: str, digest: str) -> dict:
    """Data that was read, known by its content."""
    return {"@id": f"#input-{name}", "@type": "Dataset", "name": name, "identifier": f"sha256:{digest}"}


def software(manifest: dict) -> dict:
    """The program, at its commit."""
    git = manifest.get("git") or {}
    return {"@id": "#hierarchos", "@type": "SoftwareApplication", "name": "hierarchos", "version": git.get("commit") or version(manifest),
            "softwareVersion": version(manifest), "softwareRequirements": [{"@id": one["@id"]} for one in libraries(manifest)]}


def version(manifest: dict) -> str:
    return manifest["versions"].get("hierarchos", "")


def libraries(manifest: dict) -> list[dict]:
    """Python and the libraries whose versions can change a result."""
    return [{"@id": f"#{name}", "@type": "SoftwareApplication", "name": name, "softwareVersion": value}
            for name, value in manifest["versions"].items() if name != "hierarchos"]


def action_entity(manifest: dict, inputs: list[dict], results: list[dict]) -> dict:
    """The run itself."""
    device = manifest.get("device") or {}
    error = {"error": manifest["error"]["message"]} if manifest.get("error") else {}
    made = [{"@id": one["@id"]} for one in results]
    return {"@id": f"#{manifest['id']}", "@type": "CreateAction", "name": f"hierarchos {manifest['pipeline']}",
            "instrument": {"@id": "#hierarchos"}, "startTime": manifest["started"], "endTime": manifest.get("ended", ""),
            "actionStatus": {"@id": f"http://schema.org/{STATUS.get(manifest['status'], FAILED)}"},
            "description": f"device: {device.get('name', 'none')}, {device.get('driver', '')}; seed {manifest.get('seed')}",
            "object": [{"@id": one["@id"]} for one in inputs] + [{"@id": "config.yaml"}], "result": made,
            **error}
