"""Tests of the texts that `help` shows."""

from __future__ import annotations

import inspect

import gleed


def test_every_class_and_method_has_a_docstring() -> None:
    missing = []
    for name in gleed.__all__:
        thing = getattr(gleed, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        if not thing.__doc__:
            missing.append(name)
        if not inspect.isclass(thing) or not thing.__module__.startswith("gleed"):
            continue
        for member, value in vars(thing).items():
            function = value.fget if isinstance(value, property) else value
            if isinstance(function, (classmethod, staticmethod)):
                function = function.__func__
            # Functions that `dataclass`, `NamedTuple` and `Enum` generate have no docstring of this package.
            ours = inspect.isfunction(function) and function.__code__.co_filename.endswith(".py")
            if ours and not member.startswith("_") and not inspect.getdoc(function):
                missing.append(f"{name}.{member}")
    assert missing == []


def test_the_whole_interface_is_named() -> None:
    """Every name for users is in `gleed` itself."""
    assert sorted(gleed.__all__) == sorted(set(gleed.__all__))
    assert all(hasattr(gleed, name) for name in gleed.__all__)
