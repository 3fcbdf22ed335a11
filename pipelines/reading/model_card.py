"""README.md of an exported package: the model card, made of what run.json and the settings say and of nothing else."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from pipelines.hashing import flatten
from pipelines.mixture import sources, weights

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.config.data import DataConfig

TASKS = {"HierarchosLM": "text-generation", "ForCausalLM": "text-generation", "LMHeadModel": "text-generation", "ForMaskedLM": "fill-mask"}
OWN = "hierarchos"                      # model_type of the model that Transformers does not know
NOT_STATED = ("Licence, intended use, limits, biases. This card was written by a program, from the record of the run; "
              "a person has to add them.")
NOT_ABOUT_MODELS = ("run", "sweep", "tracker", "launcher", "search", "device", "generate", "evaluate", "export", "pipeline")


def model_card(config: Config, manifest: dict, adapter: bool, architecture: dict) -> str:
    """The card. manifest: run.json as far as the stages have run; architecture: the model's config.json.

    It holds no times and no folders: the same run makes the same card."""
    adapter = adapter and architecture.get("model_type") != OWN       # its low-rank tensors are part of the package
    parts = [front(config, adapter, architecture), "# " + title(config, adapter, architecture), "",
             *block("Training", training(config, manifest)), *block("Data", data(config, manifest)),
             *block("Results", results(manifest)), *use(adapter, architecture), "## Settings", "",
             "Those that are not the defaults, as an experiment file of hierarchos; of folders and files the names alone.", "",
             "```yaml", yaml.safe_dump(settings(config), sort_keys=False, allow_unicode=True).rstrip(), "```", "",
             *block("Origin", origin(manifest)), "## Not stated", "",
             NOT_STATED]
    return "\n".join(parts) + "\n"


def front(config: Config, adapter: bool, architecture: dict) -> str:
    """What the Hub reads."""
    task = next((task for name in architecture.get("architectures") or [] for end, task in TASKS.items() if name.endswith(end)), None)
    library = "peft" if adapter else OWN if architecture.get("model_type") == OWN else "transformers"
    told = {"library_name": library, "tags": ["hierarchos"]}
    told |= {"pipeline_tag": task} if task else {}
    told |= {"base_model": config.model.repo} if config.model.source == "hub" else {}
    repositories = [one.repo for one in sources(config.data).values() if one.source == "hub" and one.repo]
    told |= {"datasets": list(dict.fromkeys(repositories))} if repositories else {}
    return "---\n" + yaml.safe_dump(told, sort_keys=False) + "---"


def title(config: Config, adapter: bool, architecture: dict) -> str:
    kind = architecture.get("model_type", "model")
    if adapter:
        return f"{config.peft.method} adapter for {base_of(config)}"
    return f"{kind}, trained from nothing" if config.model.source == "fresh" else f"{kind}, trained from {base_of(config)}"


def base_of(config: Config) -> str:
    """The model that training started from; of a local one its folder's name alone."""
    return str(config.model.repo) if config.model.source == "hub" else Path(config.model.path or "a package").name


def block(heading: str, rows: list[tuple[str, object]]) -> list[str]:
    """A heading with a table of what is known."""
    known = [(name, value) for name, value in rows if value not in (None, "", [])]
    if not known:
        return []
    cells = [f"| {name} | {str(value).replace('|', chr(92) + '|')} |" for name, value in known]
    return [f"## {heading}", "", "| | |", "| --- | --- |", *cells, ""]


def facts(manifest: dict, stage: str) -> dict:
    return manifest.get("stages", {}).get(stage, {}).get("facts", {})


def training(config: Config, manifest: dict) -> list[tuple[str, object]]:
    """How it was trained."""
    told, train = facts(manifest, "train"), config.train
    device = manifest.get("device") or {}
    return [("parameters", counted(told.get("parameters"))), ("steps", counted(told.get("steps"))), ("tokens", counted(told.get("tokens"))),
            ("sequences in a step", f"{train.batch_size * train.accumulation} of {train.sequence_length} tokens"),
            ("learning rate", f"{train.learning_rate:g}, {train.schedule.name}"), ("optimizer", train.optimizer.name),
            ("precision", config.precision.compute), ("seed", config.run.seed),
            ("device", ", ".join(filter(None, [device.get("name"), device.get("driver")])))]


def counted(value: object) -> str | None:
    return f"{value:,}" if isinstance(value, int) else None


def data(config: Config, manifest: dict) -> list[tuple[str, object]]:
    """What it was trained on."""
    rows, got = facts(manifest, "tokenize"), facts(manifest, "acquire")
    account = rows.get("rows") if isinstance(rows.get("rows"), dict) else {}
    place = [("rows from", rows_of(config.data)), ("commit", got.get("data_commit"))] if not config.data.mix else mixed(config, rows, got)
    return [*place, ("sha256", manifest.get("hashes", {}).get("data")),
            ("rows used", counted(account.get("used"))), ("tokens of training rows", counted(rows.get("tokens"))),
            ("tokens held out", counted(rows.get("validation_tokens"))), ("vocabulary", counted(rows.get("vocab_size"))),
            ("notes", "; ".join(account.get("notices", [])))]


def rows_of(data: DataConfig) -> str:
    """Where the rows of one source are from; of files their names alone."""
    paths = data.path if isinstance(data.path, list) else [data.path or ""]
    known = {"hub": data.repo, "corpus": "the corpus that ships with hierarchos"}.get(data.source)
    return known or ", ".join(Path(path).name for path in paths)


def mixed(config: Config, rows: dict, got: dict) -> list[tuple[str, object]]:
    """A row for each source of a mixture: where it is from, its weight, and its share of the tokens."""
    told, shares, weight = [], rows.get("mix", {}), weights(config.data)
    for name, one in sources(config.data).items():
        tokens = shares.get(name, {}).get("tokens")
        share = f", {tokens / max(1, sum(part['tokens'] for part in shares.values())):.1%} of the tokens" if tokens is not None else ""
        commit = got.get("mix", {}).get(name, {}).get("data_commit")
        told.append((f"rows of {name}", f"{rows_of(one)}, weight {weight[name]:g}{share}" + (f", commit {commit}" if commit else "")))
    return told


def results(manifest: dict) -> list[tuple[str, object]]:
    """Losses of training; what `evaluate` finds comes after the package and is in the run directory."""
    told = facts(manifest, "train")
    def shown(name: str) -> str | None:
        return f"{told[name]:.4f}" if isinstance(told.get(name), float) else None

    best = f"{shown('best_loss')} (step {told.get('best_step')}, which is what was exported)" if shown("best_loss") else None
    return [("training loss at the end (nats a token)", shown("loss")), ("validation loss at the end", shown("validation_loss")),
            ("best validation loss", best)]


def use(adapter: bool, architecture: dict) -> list[str]:
    """How to run it."""
    word = "peft.path" if adapter else "model.path"
    first = "model=local model.path=BASE " if adapter else "model=local "
    return ["## Use", "", "```", f"hierarchos generate {first}{word}=FOLDER prompt=\"...\"", "```", "",
            "Transformers does not know this model." if architecture.get("model_type") == OWN else
            "Transformers" + (" with PEFT" if adapter else "") + " reads the same folder.", ""]


def settings(config: Config) -> dict:
    """Settings that make the model and are not the defaults, nested; of paths the last part alone."""
    from pipelines.config import Config as Defaults
    from pipelines.settings.resolve import as_dict
    from pipelines.settings.schema import settings as known

    before, nested = flatten(as_dict(Defaults())), {}
    for key, value in flatten(as_dict(config)).items():
        if key.partition(".")[0] in NOT_ABOUT_MODELS or (key in before and before[key] == value):
            continue
        *parents, name = key.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        is_path = (key in known() and known()[key].limits.path) or (key.startswith("data.mix.") and name == "path")
        place[name] = Path(value).name if is_path and isinstance(value, str) else value
    return nested


def origin(manifest: dict) -> list[tuple[str, object]]:
    """Code, libraries and inputs."""
    git = manifest.get("git") or {}
    changed = f", {git['changed_files']} files changed" if git.get("changed_files") else ""
    versions = manifest.get("versions", {})
    hashes = manifest.get("hashes", {})
    return [("versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
            ("commit", f"{git['commit']}{changed}" if git.get("commit") else None),
            *[(f"sha256: {name}", hashes.get(name)) for name in ("tokenizer", "model", "shaders", "code")],
            ("base model's commit", facts(manifest, "acquire").get("commit"))]
