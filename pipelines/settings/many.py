"""Many compositions of files that do not change meanwhile: each file is read once, and what nobody asks for is not made."""
from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from hydra._internal import defaults_list
from hydra.plugins.config_source import ConfigResult

from pipelines.settings import source
from pipelines.settings.compose import hydra_for
from pipelines.settings.folders import Folders

CHOICES = "_create_interpolation_map"       # Hydra's: all choices as a configuration, for every file; a seventh of the time of `check`


@contextmanager
def many(folders: Folders) -> Iterator[None]:
    """While it lasts, files are read once for all compositions."""
    loader = hydra_for(folders).config_loader
    repository, choices = loader.repository, getattr(defaults_list, CHOICES, None)
    loader.repository = KeptAnswers(repository)
    if choices is not None:
        setattr(defaults_list, CHOICES, partial(where_asked, choices))
    try:
        yield
    finally:
        loader.repository = repository
        if choices is not None:
            setattr(defaults_list, CHOICES, choices)


def where_asked(choices: Callable, overrides: object, defaults: list, *others: object) -> object:
    """The choices for ${...} in a defaults list; None where it has none."""
    return choices(overrides, defaults, *others) if any(default.is_interpolation() for default in defaults) else None


class KeptAnswers:
    """A repository of configuration files that answers a question only once."""

    ASKED = ("load_config", "group_exists", "config_exists", "get_group_options")

    def __init__(self, repository: object):
        self.repository = repository
        self.answers: dict[tuple, object] = {}

    def __getattr__(self, name: str) -> object:
        method = getattr(self.repository, name)
        return partial(self.ask, name, method) if name in self.ASKED else method

    def __deepcopy__(self, _: dict) -> KeptAnswers:
        return self                               # Hydra copies its repository for each composition

    def ask(self, name: str, method: Callable, *arguments: object, **named: object) -> object:
        """The kept answer, or a new one; what a file requires is noted for each composition."""
        question = (name, arguments, tuple(sorted(named.items())))
        if question not in self.answers:
            answer = method(*arguments, **named)
            self.answers[question] = Packed.of(answer) if isinstance(answer, ConfigResult) else answer
        answer = self.answers[question]
        if isinstance(answer, Packed):
            answer = answer.copy()                # Hydra merges into what it is given
            source.required.update(answer.header.get(source.MARKS) or [])
        return answer


@dataclass(frozen=True)
class Packed:
    """A file's content as bytes: unpacking them takes a fifth of the time of a deep copy. Classes stay outside, in `classes`."""

    content: bytes
    classes: dict[int, type]

    @classmethod
    def of(cls, answer: ConfigResult) -> Packed:
        """Packs what a file says."""
        packer = Packer(buffer := io.BytesIO(), pickle.HIGHEST_PROTOCOL)
        packer.dump(answer)
        return cls(buffer.getvalue(), packer.classes)

    def copy(self) -> ConfigResult:
        """A new copy."""
        unpacker = pickle.Unpickler(io.BytesIO(self.content))
        unpacker.persistent_load = self.classes.__getitem__
        return unpacker.load()


class Packer(pickle.Pickler):
    """Pickles by value all but classes: the mergeable dataclasses have no module to be found in."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)
        self.classes: dict[int, type] = {}

    def persistent_id(self, value: object) -> int | None:
        """The name of a class in `classes`; None for everything else."""
        if not isinstance(value, type):
            return None
        self.classes[id(value)] = value
        return id(value)
