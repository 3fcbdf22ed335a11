"""A run directory as a Process Run Crate 0.5 (RO-Crate 1.1): JSON-LD that says what ran, with what, and what it made."""
from __future__ import annotations

from pathlib import Path

from pipelines.hashing import hash_file
from pipelines.run_directory import read_manifest

NAME = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
FAILED = "FailedActionStatus"
STATUS = {"done": "CompletedActionStatus", "failed": FAILED, "interrupted": FAILED}        # a run that still goes on has none
LICENCE = {"@id": "#licence", "@type": "CreativeWork", "name": "not stated",
           "description": "A person has to say it; this was written by a program."}
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
            "description": "A run: " + " ".join(manifest.get("command", [])),
            "datePublished": time_of(manifest.get("ended") or manifest["started"]), "license": {"@id": LICENCE["@id"]},
            "conformsTo": {"@id": PROFILE}, "mentions": {"@id": action["@id"]},
            "hasPart": [{"@id": one["@id"]} for one in files]}
    descriptor = {"@id": NAME, "@type": "CreativeWork", "about": {"@id": "./"}, "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"}}
    profile = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    graph = [descriptor, root, profile, LICENCE, software(manifest), *libraries(manifest), action, *inputs, *files]
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
    return {"@id": "#hierarchos", "@type": "SoftwareApplication", "name": "hierarchos",
            "softwareVersion": version(manifest) + (f"+{git['commit']}" if git.get("commit") else ""),
            "softwareRequirements": [{"@id": one["@id"]} for one in libraries(manifest)]}


def version(manifest: dict) -> str:
    return manifest["versions"].get("hierarchos", "")


def libraries(manifest: dict) -> list[dict]:
    """Python and the libraries whose versions can change a result."""
    return [{"@id": address(name, value), "@type": "SoftwareApplication", "name": name, "softwareVersion": value,
             "url": address(name, value)}
            for name, value in manifest["versions"].items() if name != "hierarchos"]


def address(name: str, version: str) -> str:
    """Where a library can be had."""
    return "https://www.python.org/" if name == "python" else f"https://pypi.org/project/{name}/{version}/"


def time_of(text: str) -> str:
    """ISO 8601 with a colon in its offset: 2026-01-31T12:00:00+00:00."""
    return text if text[-3:-2] == ":" else f"{text[:-2]}:{text[-2:]}"


def action_entity(manifest: dict, inputs: list[dict], results: list[dict]) -> dict:
    """The run itself."""
    device = manifest.get("device") or {}
    status = STATUS.get(manifest["status"])
    told = {"endTime": time_of(manifest["ended"])} if manifest.get("ended") else {}
    told |= {"actionStatus": f"http://schema.org/{status}"} if status else {}
    told |= {"error": manifest["error"]["message"]} if manifest.get("error") and status == FAILED else {}
    made = [{"@id": one["@id"]} for one in results]
    return {"@id": f"#{manifest['id']}", "@type": "CreateAction", "name": f"hierarchos {manifest['pipeline']}",
            "instrument": {"@id": "#hierarchos"}, "startTime": time_of(manifest["started"]),
            "description": f"device: {device.get('name', 'none')}, {device.get('driver', '')}; seed {manifest.get('seed')}",
            "object": [{"@id": one["@id"]} for one in inputs] + [{"@id": "config.yaml"}], "result": made,
            **told}
