"""Somebody's own images, or texts (.txt), in a folder for each class.

`class/image`, or `client/class/image`; either may lie below `train/`, with `test/` beside it, else
a fifth of each class is held out. What the first level means is never guessed: images exactly two
levels deep are `class/image`, everything else asks for `data.layout`. All of that holds for texts,
which are taken where there is no image.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.images.listing import Files, ImageListing, Listed, numbered, some
from feddiv.data.images.own_listing import own_listing, refuse_image_keys
from feddiv.data.names import composed, is_split, is_train, number_notes, one_spelling, test_name
from feddiv.data.sources.folder_tree import PathParts, Tree
from feddiv.data.texts.files import read_texts
from feddiv.data.texts.own_texts import Labelled, own_texts
from feddiv.data.texts.texts import Texts

TAKES: Final = frozenset({"path", "test_share", "size", "channels", "layout", "follow_links"})

Layout = Literal["class", "client"]


@dataclass(frozen=True)
class Found:
    """A sample: its path from the root, its class (composed), and its client if it has one."""

    path: str
    label: str
    client: str


def load(options: DataOptions) -> Dataset | ImageListing:
    """All images of the folder, none of them read yet, or all texts."""
    if options.path is None:
        raise UserError("data.source=folder: data.path has to name the folder of class folders")
    tree = Tree.of(options.path.expanduser(), options.follow_links)
    notes = tree.notes()
    train_folder, test_folder = _split_folders(tree, notes)
    train, layout = _found(tree, train_folder, options.layout, notes)
    test: list[Found] = []
    if test_folder is not None:
        # Below test/ clients mean nothing, and need not be there.
        test = _test(tree, test_folder, layout, notes)
    if not train:
        raise UserError(
            f"data.path={tree.root}: holds no {tree.kind} in class folders"
            + (f" below {train_folder}/" if train_folder else "")
        )

    classes, numbers = numbered([found.label for found in train + test])
    notes += number_notes(classes)
    notes += _odd_classes(tree, layout, train_folder, test_folder, train, test)
    clients, holder = _clients(train, layout)
    where, root = f"data.path={tree.root}", tree.root
    if tree.kind == "texts":
        refuse_image_keys(options, where, "texts")
        tested = Labelled(_texts(root, test), numbers[len(train) :]) if test else None
        return own_texts(
            "folder",
            options.test_share,
            where,
            classes,
            Labelled(_texts(root, train), numbers[: len(train)]),
            tested,
            clients=clients,
            holder=holder,
            notes=notes,
        )
    return own_listing(
        "folder",
        options,
        where,
        classes,
        Listed(_files(root, train), numbers[: len(train)]),
        Listed(_files(root, test), numbers[len(train) :]) if test else None,
        clients=clients,
        holder=holder,
        notes=notes,
    )


def _split_folders(tree: Tree, notes: list[str]) -> tuple[str, str | None]:
    """The folders of training and of test samples; "" where the root holds the classes itself.

    A folder called train is only special where all folders beside it have such names too: it may
    be the class of trains.
    """
    top = tree.top()
    special = [name for name in top if is_split(name)]
    others = [name for name in top if name not in special]
    train = [name for name in special if is_train(name)]
    test = test_name(special, f"data.path={tree.root}")
    if others and not (train and test):
        return "", None
    if others:
        raise UserError(
            f"data.path={tree.root}: {others[0]}/ lies beside {train[0]}/ and {test}/; move it "
            "into one of them or elsewhere"
        )
    if not special:
        return "", None
    if len(train) != 1:
        problem = "no train/" if not train else " and ".join(f"{name}/" for name in train)
        raise UserError(f"data.path={tree.root}: there is {problem} beside {test or 'no test'}/")
    unused = [name for name in special if name not in (train[0], test)]
    if unused:
        notes.append(f"{', '.join(unused)}/ is not used: the test {tree.kind} are those of {test}/")
    return train[0], test


def _found(
    tree: Tree, below: str, layout: Layout | None, notes: list[str]
) -> tuple[list[Found], Layout]:
    samples = list(tree.below(below)) if below else tree.samples
    stray = [_path(below, parts) for parts in samples if len(parts) == 1]
    if stray:
        notes.append(
            f"{tree.kind} outside of class folders, left out: {len(stray):,} ({some(stray)})"
        )
    samples = [parts for parts in samples if len(parts) > 1]
    if layout is None:
        layout = "class"
        deeper = next((parts for parts in samples if len(parts) > 2), None)
        if deeper is not None:
            raise UserError(
                f"data.path={tree.root}: {_path(below, deeper)} lies deeper than class/image; set "
                "data.layout=client if folders are client/class/image, or data.layout=class if "
                "the first folder is the class whatever is below it"
            )
    if layout == "client":
        _check_depth(tree, below, samples)
    _refuse_splits_below(tree, below, samples)
    _refuse_two_spellings(samples, layout)
    return [_sample(below, parts, layout) for parts in samples], layout


def _check_depth(tree: Tree, below: str, samples: list[PathParts]) -> None:
    for parts in samples:
        if len(parts) != 3:
            raise UserError(
                f"data.layout=client: {_path(below, parts)} in {tree.root} is not "
                "client/class/image"
            )


def _refuse_splits_below(tree: Tree, below: str, samples: list[PathParts]) -> None:
    """Below clients or classes a split would be taken for a class, and its samples be learned."""
    for parts in samples:
        word = next((part for part in parts[:-1] if is_split(part)), None)
        if len(parts) > 2 and word is not None:
            raise UserError(
                f"data.path={tree.root}: {word}/ in {_path(below, parts)} is neither a client "
                "nor a class; train/ and test/ lie above all others: move it there, or rename it"
            )


def _refuse_two_spellings(samples: list[PathParts], layout: Layout) -> None:
    """Side by side they are a mistake; train/ and test/, or clients, may come from two systems."""
    depth = int(layout == "client")
    beside: dict[PathParts, set[str]] = {}
    for parts in samples:
        beside.setdefault(parts[:depth], set()).add(parts[depth])
    for names in beside.values():
        one_spelling(sorted(names), "class folder")


def _test(tree: Tree, folder: str, layout: Layout, notes: list[str]) -> list[Found]:
    flat = all(len(parts) <= 2 for parts in tree.below(folder))
    found, _ = _found(tree, folder, "class" if flat else layout, notes)
    if not found:
        raise UserError(f"data.path={tree.root}: {folder}/ holds no {tree.kind} in class folders")
    return found


def _sample(below: str, parts: PathParts, layout: Layout) -> Found:
    client = parts[0] if layout == "client" else ""
    label = parts[1] if layout == "client" else parts[0]
    return Found(_path(below, parts), composed(label), client)


def _path(below: str, parts: PathParts) -> str:
    """From the root on."""
    return "/".join((below, *parts) if below else parts)


def _odd_classes(
    tree: Tree,
    layout: Layout,
    train_folder: str,
    test_folder: str | None,
    train: list[Found],
    test: list[Found],
) -> list[str]:
    """Classes without samples, and those that cannot be learned."""
    notes = []
    depth = (layout == "client") + bool(train_folder)
    named = {
        composed(parts[depth])
        for parts in tree.folders
        if len(parts) == depth + 1 and (not train_folder or parts[0] == train_folder)
    }
    learned = {found.label for found in train}
    tested = {found.label for found in test}
    if empty := sorted(named - learned - tested):
        notes.append(f"class folders without {tree.kind}, left out: {len(empty)} ({some(empty)})")
    if unknown := sorted(tested - learned):
        notes.append(
            f"classes only in {test_folder}/, tested though they cannot be learned: {len(unknown)} "
            f"({some(unknown)})"
        )
    return notes


def _clients(train: list[Found], layout: Layout) -> tuple[tuple[str, ...], Rows | None]:
    if layout != "client":
        return (), None
    spelled = one_spelling(sorted({found.client for found in train}), "client folder")
    return numbered([spelled[found.client] for found in train])


def _files(root: Path, found: list[Found]) -> Files:
    return Files(root, tuple(image.path for image in found))


def _texts(root: Path, found: list[Found]) -> Texts:
    return read_texts(root, [text.path for text in found])
