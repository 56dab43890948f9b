"""Tables of build.toml: with fixed keys, and of components, where one key decides about the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from buildlib.config.locate import KeyPath
from buildlib.config.problems import Reading, closest, did_you_mean, listing, table_words
from buildlib.config.values import Choice, Type, mismatch

_LAST_WITH_BACKEND = 5
_NO_SIBLINGS: Mapping[str, Table] = {}


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a table. The same name may stand for different things in editions that do not overlap."""

    name: str
    type: Type
    about: str
    required: bool = False
    first: int = 3
    last: int = 6
    # Another spelling of the name that is read as well.
    alias: str | None = None
    # What takes the key's place in the editions after the last one.
    instead: str = ""

    @property
    def field(self) -> str:
        """The name of the model's field."""
        return self.name.replace("-", "_")

    def exists_in(self, edition: int) -> bool:
        """Whether an edition has this key."""
        return self.first <= edition <= self.last


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table with fixed keys, which become the fields of a struct of the model."""

    about: str
    struct: Callable[..., object]
    keys: tuple[Key, ...]
    # Keys of which there has to be one, and no other.
    exactly_one_of: tuple[str, ...] = ()

    @property
    def example(self) -> str:
        """A right value, as TOML."""
        shown = [key for key in self.keys if key.required or key.name in self.exactly_one_of[:1]]
        return "{ " + ", ".join(f"{key.name} = {key.type.example}" for key in shown) + " }"

    def read(self, value: object, path: KeyPath, reading: Reading) -> object | None:
        """The struct."""
        values = self.values(value, path, reading)
        return None if values is None else self.struct(**values)

    def values(
        self, value: object, path: KeyPath, reading: Reading, siblings: Mapping[str, Table] = _NO_SIBLINGS
    ) -> dict[str, object] | None:
        """The values of the keys that are there, by field. Siblings are tables for which this one may be mistaken."""
        if not isinstance(value, dict):
            mismatch(value, path, reading, "a table", table_words(path))
            return None
        before = len(reading.problems)
        unknown = dict(value)
        values: dict[str, object] = {}
        missing: list[Key] = []
        for key in self.keys_of(reading.edition):
            name = _spelling(key, unknown, path, reading)
            if name in unknown:
                values[key.field] = key.type.read(unknown.pop(name), (*path, name), reading)
                unknown.pop(key.name, None)
            elif key.required:
                missing.append(key)
        meant = {self._unknown((*path, name), name, reading, siblings) for name in unknown}
        for key in missing:
            # A misspelled key is one mistake, not two.
            if key.name not in meant:
                reading.at_table(path, f"the key {key.name!r} is missing", f"add {_added(key, path)}")
        given = [name for name in self.exactly_one_of if name in value]
        if self.exactly_one_of and len(given) != 1:
            what = f"has {' and '.join(map(repr, given))}" if given else "a key is missing"
            reading.at_table(path, what, f"give exactly one of {listing(self.exactly_one_of)}")
        return values if len(reading.problems) == before else None

    def keys_of(self, edition: int) -> Sequence[Key]:
        """The keys that an edition has."""
        return [key for key in self.keys if key.exists_in(edition)]

    def _unknown(self, at: KeyPath, name: str, reading: Reading, siblings: Mapping[str, Table]) -> str | None:
        """Note a key that the edition does not have; the answer is the key that was most likely meant."""
        accepted = [key.name for key in self.keys_of(reading.edition)]
        known = next((key for key in self.keys if key.name == name), None)
        owners = [kind for kind, table in siblings.items() if name in (key.name for key in table.keys)]
        if known is not None and known.first > reading.edition:
            todo = f"set edition = {known.first} in [general], or drop the key"
            reading.at_key(at, f"a key of edition {known.first} and later", todo)
        elif known is not None:
            todo = f"write {known.instead}" if known.instead else "drop it"
            reading.at_key(at, f"no key of edition {reading.edition} any more", todo)
        elif owners:
            reading.at_key(at, f"a key for {' and '.join(owners)} only", f"drop it; accepted are {listing(accepted)}")
        else:
            reading.at_key(at, "unknown key", f"{did_you_mean(name, accepted)}accepted are {listing(accepted)}")
            return closest(name, accepted)
        return None


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """A table of named components. One key of each says by which table the others are read."""

    # The tables by that key's value, with the key that it is in the editions up to 5, and the one that it is since.
    by_backend: Mapping[str, Table]
    by_language: Mapping[str, Table]
    example: str = "[kernel.<name>]"

    def kinds(self, edition: int) -> tuple[str, Mapping[str, Table]]:
        """The key that decides, and the tables by its value."""
        return ("backend", self.by_backend) if edition <= _LAST_WITH_BACKEND else ("language", self.by_language)

    def read(self, value: object, path: KeyPath, reading: Reading) -> tuple[object, ...] | None:
        """The components in the order of the file, without those that are wrong."""
        if not isinstance(value, dict):
            mismatch(value, path, reading, "a table of components", self.example)
            return None
        read = [self._component(name, table, (*path, name), reading) for name, table in value.items()]
        return tuple(component for component in read if component is not None)

    def _component(self, name: str, value: object, path: KeyPath, reading: Reading) -> object | None:
        if not isinstance(value, dict):
            mismatch(value, path, reading, "a component, which is a table,", f"[kernel.{name}]")
            return None
        decider, tables = self.kinds(reading.edition)
        if decider not in value:
            self._undecided(decider, value, path, reading)
            return None
        kind = Choice(decider, tuple(tables)).read(value[decider], (*path, decider), reading)
        if kind is None:
            return None
        table = tables[kind]
        values = table.values(value, path, reading, tables)
        if values is None:
            return None
        del values[decider]
        return table.struct(name=name, **values)

    def _undecided(self, decider: str, value: Mapping[str, object], path: KeyPath, reading: Reading) -> None:
        _, tables = self.kinds(reading.edition)
        if decider == "backend" and "language" in value:
            todo = f"set edition = {_LAST_WITH_BACKEND + 1} in [general], or write 'backend'"
            reading.at_key((*path, "language"), f"a key of edition {_LAST_WITH_BACKEND + 1} and later", todo)
        elif decider == "language" and "backend" in value:
            todo = f"write 'language' with one of {listing(tables)}"
            reading.at_key((*path, "backend"), f"no key of edition {reading.edition} any more", todo)
        else:
            reading.at_table(path, f"the key {decider!r} is missing", f"add it with one of {listing(tables)}")


def _added(key: Key, path: KeyPath) -> str:
    """What to write to have a key in the table at `path`."""
    return table_words((*path, key.name)) if isinstance(key.type, Table) else f"{key.name} = {key.type.example}"


def _spelling(key: Key, given: Mapping[str, object], path: KeyPath, reading: Reading) -> str:
    """How a table spells a key; with both spellings there, the second is a problem."""
    if key.alias is None or key.alias not in given:
        return key.name
    if key.name in given:
        reading.at_key((*path, key.alias), f"says the same as {key.name!r}", "keep one of the two")
    return key.alias
