import os
import unicodedata
from pathlib import Path

import pytest
import torch
from PIL import Image
from tests.data.pictures import BLUE, GREEN, RED, Listener, class_folders, load, picture, reds

from feddiv.core.errors import UserError
from feddiv.data import Augment


def folder(path: Path, listener: Listener | None = None, **options: object):
    return load(source="folder", path=path, listener=listener, **options)


def test_class_folders_and_a_fifth_held_out(tmp_path: Path) -> None:
    listener = Listener()
    data = folder(class_folders(tmp_path / "data"), listener)
    assert data.classes == ("a", "b")
    assert torch.bincount(data.train.labels).tolist() == [8, 8]
    assert torch.bincount(data.test.labels).tolist() == [2, 2]
    assert data.input_shape == (3, 8, 8)
    assert data.train.inputs.dtype == torch.uint8
    assert data.augment == Augment(pad=1)
    assert (data.truth, data.clients, data.holder, data.window) == (None, (), None, None)
    # Every image once, under the label of its folder.
    seen = sorted(
        (int(label), red)
        for split in (data.train, data.test)
        for label, red in zip(split.labels, reds(split.inputs), strict=True)
    )
    assert seen == [(label, red) for label in (0, 1) for red in range(10)]
    assert [int(green) for green in data.train.inputs[:, 0, 0, 1]] == [
        50 * int(label) for label in data.train.labels
    ]
    expected = data.train.inputs.double().mean(dim=(0, 1, 2)) / 255
    assert data.mean == pytest.approx(expected.tolist())
    assert listener.said("are resized to 8x8").startswith("20 images")
    assert [step[1:] for step in listener.steps] == [(16, 16), (4, 4)]


def test_a_second_run_reads_no_image_again(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "data")
    first, listener = folder(root), Listener()
    again = folder(root, listener)
    assert listener.notes == listener.steps == []
    assert torch.equal(first.train.inputs, again.train.inputs)
    picture(root / "a" / "00.png", BLUE, size=(30, 30))
    folder(root, listener)
    assert listener.steps, "a changed image has to be read"


def test_train_and_test_folders(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 3)
    class_folders(tmp_path / "test", 2)
    class_folders(tmp_path / "val", 1)
    listener = Listener()
    data = folder(tmp_path, listener)
    assert (len(data.train), len(data.test)) == (6, 4)
    assert "val/ is not used" in listener.said("not used")
    for image in (tmp_path / "test").rglob("*.png"):
        image.unlink()
    with pytest.raises(UserError, match=r"test/ holds no images in class folders"):
        folder(tmp_path)


def test_val_is_the_test_set_where_there_is_no_other(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", 3)
    class_folders(tmp_path / "val", 1)
    assert len(folder(tmp_path).test) == 2


def test_train_may_be_a_class(tmp_path: Path) -> None:
    for name in ("train", "bus", "ship"):
        class_folders(tmp_path, 5, [name])  # type: ignore[arg-type]
    assert folder(tmp_path).classes == ("bus", "ship", "train")


def test_clients_above_classes(tmp_path: Path) -> None:
    class_folders(tmp_path / "north", 5)
    class_folders(tmp_path / "south", 10)
    data = folder(tmp_path, layout="client")
    assert data.classes == ("a", "b")
    assert data.clients == ("north", "south")
    assert data.holder is not None
    assert len(data.holder) == len(data.train) == 24
    assert torch.bincount(data.holder).sum() == 24
    assert torch.bincount(data.holder)[0] < torch.bincount(data.holder)[1]


@pytest.mark.parametrize("test_client", ["", "anyone"])
def test_clients_below_train(tmp_path: Path, test_client: str) -> None:
    class_folders(tmp_path / "train" / "north", 2)
    class_folders(tmp_path / "train" / "south", 3)
    class_folders(tmp_path / "test" / test_client, 1)
    data = folder(tmp_path, layout="client")
    assert data.clients == ("north", "south")
    assert data.holder is not None
    assert torch.bincount(data.holder).tolist() == [4, 6]
    assert torch.bincount(data.test.labels).tolist() == [1, 1]


def test_what_the_levels_mean_is_asked_for_and_not_guessed(tmp_path: Path) -> None:
    class_folders(tmp_path / "north", 10)
    class_folders(tmp_path / "south", 10)
    with pytest.raises(UserError, match=r"north/a/00\.png lies deeper .* data\.layout=client"):
        folder(tmp_path)
    assert folder(tmp_path, layout="class").classes == ("north", "south")
    picture(tmp_path / "south" / "stray.png")
    with pytest.raises(UserError, match=r"south/stray\.png .* is not client/class/image"):
        folder(tmp_path, layout="client")


def test_whatever_else_lies_about_is_named(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "data" / "train", 20).parent
    class_folders(root / "test", 3, "abz")
    (root / "train" / "empty").mkdir()
    (root / "train" / "a" / "Thumbs.db").write_text("x")
    (root / "train" / "a" / ".hidden.png").write_text("x")
    (root / "train" / "a" / "notes.txt").write_text("x")
    (root / "train" / "b" / "broken.png").write_bytes(b"\x89PNG no more")
    (root / "train" / "b" / "cut.jpg").write_bytes(
        picture(tmp_path / "whole.jpg", size=(99, 99)).read_bytes()[:700]
    )
    (root / "train" / "b" / "nothing.png").symlink_to("gone.png")
    outside = picture(tmp_path / "outside.png", BLUE)
    (root / "train" / "a" / "link.png").symlink_to(outside)
    (root / "train" / "a" / "inside.png").symlink_to("00.png")
    (root / "train" / "a" / "loop").symlink_to("..", target_is_directory=True)
    picture(root / "train" / "cover.png")

    listener = Listener()
    data = folder(root, listener)
    assert data.classes == ("a", "b", "z")
    assert torch.bincount(data.train.labels).tolist() == [21, 20]
    assert torch.bincount(data.test.labels).tolist() == [3, 3, 3]
    unreadable = listener.said("cannot be read")
    assert "3 of 44 (" in unreadable
    assert "b/broken.png: not an image" in unreadable
    assert "b/nothing.png: there is no such file" in unreadable
    assert "(train/a/notes.txt)" in listener.said("no images, left out: 1")
    assert "(empty)" in listener.said("class folders without images")
    assert "(z)" in listener.said("classes only in test/")
    assert "(train/cover.png)" in listener.said("outside of class folders")
    assert "(train/a/link.png)" in listener.said("lead out of")
    assert "data.follow_links=true" in listener.said("lead out of")
    assert len(folder(root, follow_links=True).train) == 42


def test_a_linked_folder_is_followed_once_if_asked(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "data", 5)
    class_folders(tmp_path / "elsewhere", 5, "c")
    (root / "c").symlink_to(tmp_path / "elsewhere" / "c", target_is_directory=True)
    listener = Listener()
    assert folder(root, listener).classes == ("a", "b")
    assert "(c)" in listener.said("lead out of")
    assert folder(root, follow_links=True).classes == ("a", "b", "c")


def test_many_unreadable_images_are_no_accident(tmp_path: Path) -> None:
    root = tmp_path
    class_folders(root / "train", 100)
    class_folders(root / "test", 10)
    for number in range(11):
        (root / "test" / "a" / f"x{number}.png").write_text("no image")
    with pytest.raises(
        UserError,
        match=r"^test images .* more than a tenth: 11 of 31 \(test/a/x0\.png: not an image",
    ):
        folder(root)
    for image in root.rglob("*.png"):
        image.write_text("no image")
    with pytest.raises(UserError, match=r"none of \d+ images can be read"):
        folder(root)


def test_unreadable_images_are_judged_together_where_the_split_is_ours(tmp_path: Path) -> None:
    class_folders(tmp_path / "data", 100)
    write = (tmp_path / "list.csv").write_text
    images = [f"data/{name}/{number:02}.png" for name in "ab" for number in range(100)]
    lines = [f"{image},{image[5]}" for image in images]
    write("\n".join(["image,label", *lines]))
    held = load(source="table", path=tmp_path / "list.csv").test.inputs
    chosen = sorted(
        (100 * (int(g) > 0) + r) for r, g in zip(reds(held), held[:, 4, 4, 1], strict=True)
    )
    for row in chosen[:15]:  # more than a tenth of those that fall to test, not of all
        (tmp_path / images[row]).write_text("no image")
    for source in (
        {"source": "table", "path": tmp_path / "list.csv"},
        {"source": "folder", "path": tmp_path / "data"},
    ):
        listener = Listener()
        data = load(listener=listener, **source)
        assert len(data.train) + len(data.test) == 185
        assert listener.said("cannot be read").startswith(
            "images that cannot be read, left out: 15 of 200"
        )
    write(
        "\n".join(
            [
                "image,label,split",
                *(
                    f"{line},{'test' if row in chosen else 'train'}"
                    for row, line in enumerate(lines)
                ),
            ]
        )
    )
    with pytest.raises(UserError, match=r"^test images .* more than a tenth: 15 of 40"):
        load(source="table", path=tmp_path / "list.csv")
    for row in range(200):
        if row % 9 == 0:
            (tmp_path / images[row]).write_text("no image")
    with pytest.raises(UserError, match=r"^images .* more than a tenth: \d\d of 200"):
        folder(tmp_path / "data")


def test_a_client_whose_images_are_all_unreadable_is_gone(tmp_path: Path) -> None:
    for name in ("east", "north", "south"):
        class_folders(tmp_path / "train" / name, 3)
    class_folders(tmp_path / "test", 1)
    for image in (tmp_path / "train" / "north").rglob("*.png"):
        image.write_text("no image")
    data = folder(tmp_path, layout="client")
    assert data.clients == ("east", "south")
    assert data.holder is not None
    assert torch.bincount(data.holder).tolist() == [6, 6]


def test_names_in_any_script_and_one_spelling(tmp_path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "Äpfel") for form in ("NFC", "NFD"))
    for name in (apart, "香蕉"):
        for number in range(5):
            picture(tmp_path / name / f"é {number}.png", GREEN)
    assert folder(tmp_path).classes == (composed, "香蕉")
    picture(tmp_path / composed / "1.png")
    with pytest.raises(UserError, match=r"'Äpfel' is there twice, in two Unicode spellings \('A"):
        folder(tmp_path)


def test_train_and_test_or_clients_may_spell_a_class_in_two_ways(tmp_path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    for place, name in (("north", composed), ("south", apart)):
        class_folders(tmp_path / "train" / place, 3, [name, "b"])  # type: ignore[arg-type]
    class_folders(tmp_path / "test", 2, [apart, "b"])  # type: ignore[arg-type]
    listener = Listener()
    data = folder(tmp_path, listener, layout="client")
    assert data.classes == ("b", composed)
    assert torch.bincount(data.train.labels).tolist() == [6, 6]
    assert torch.bincount(data.test.labels).tolist() == [2, 2]
    assert not [note for note in listener.notes if "class" in note]
    class_folders(tmp_path / "test", 2, [composed])  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"'é' is there twice, in two Unicode spellings"):
        folder(tmp_path, layout="client")


def test_a_class_name_that_is_no_text(tmp_path: Path) -> None:
    class_folders(tmp_path, 5)
    odd = os.path.join(os.fsencode(tmp_path), b"b\xff")
    try:
        os.rename(os.fsencode(tmp_path / "b"), odd)
    except OSError:
        pytest.skip("this file system allows UTF-8 only")
    with pytest.raises(UserError, match=r"class folder b\\udcff: the name is not UTF-8"):
        folder(tmp_path)


def test_images_of_every_kind(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number, mode in enumerate(("L", "LA", "RGBA", "P", "CMYK", "I;16", "1", "RGB")):
            (tmp_path / name).mkdir(exist_ok=True)
            end = "tif" if mode == "CMYK" else "png"
            Image.new(mode, (20, 10)).save(tmp_path / name / f"{number}.{end}")
    listener = Listener()
    data = folder(tmp_path, listener, channels=1)
    assert len(data.train) + len(data.test) == 16
    assert data.input_shape == (1, 8, 8)
    assert not [note for note in listener.notes if "cannot be read" in note]


def test_class_numbers_in_names_count(tmp_path: Path) -> None:
    for name in ("10", "9", "2"):
        class_folders(tmp_path, 5, [name])  # type: ignore[arg-type]
    assert folder(tmp_path).classes == ("2", "9", "10")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "holds no images in class folders"),
        (["a.png", "b.png"], "holds no images in class folders"),
        (["a/1.png", "a/2.png", "a/3.png"], "only one class, a"),
        (["a/1.png", "b/1.png"], "2 samples are too few to hold out 20%"),
        (["test/a/1.png", "test/b/1.png"], r"there is no train/ beside test/"),
        (["train/a/1.png", "training/a/1.png"], r"train/ and training/"),
        (["train/a/1.png", "test/a/1.png", "c/1.png"], r"c/ lies beside train/ and test/"),
        (["train/1.png", "train/2.png"], r"no images in class folders below train/"),
    ],
)
def test_folders_that_hold_no_data_set(tmp_path: Path, files: list[str], said: str) -> None:
    for name in files:
        picture(tmp_path / name, RED)
    with pytest.raises(UserError, match=said) as caught:
        folder(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_paths_and_keys_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        folder(tmp_path / "gone")
    with pytest.raises(UserError, match=r"is a file; it has to name a folder"):
        folder(picture(tmp_path / "x.png"))
    with pytest.raises(UserError, match=r"data\.path has to name the folder"):
        load(source="folder")
    with pytest.raises(UserError, match=r"data\.columns\.label=y: data\.source=folder has no use"):
        folder(tmp_path, columns={"label": "y"})
    with pytest.raises(UserError, match=r"data\.layout=client: data\.source=digits has no use"):
        load(source="digits", layout="client", size=None)
    class_folders(tmp_path / "data")
    with pytest.raises(UserError, match=r"data\.augment\.pad=8: .* 8x8"):
        folder(tmp_path / "data", augment={"pad": 8})


def test_subsets_are_chosen_before_anything_is_read(tmp_path: Path) -> None:
    root = class_folders(tmp_path)
    listener = Listener()
    first, other = folder(root, listener, images=6, test_images=2), folder(root, subset=0.25)
    assert (len(first.train), len(first.test)) == (6, 2)
    assert listener.said("resized").startswith("8 images")
    assert len(other.train) == 4  # of 16
    with pytest.raises(UserError, match=r"data\.subset=0.5 and data\.images=3 both say"):
        folder(root, subset=0.5, images=3)


def test_splits_in_capitals(tmp_path: Path) -> None:
    class_folders(tmp_path / "Train", 3)
    class_folders(tmp_path / "TEST", 2)
    data = folder(tmp_path)
    assert data.classes == ("a", "b")
    assert (len(data.train), len(data.test)) == (6, 4)


@pytest.mark.parametrize("layout", ["class", "client"])
def test_splits_below_others_are_refused(tmp_path: Path, layout: str) -> None:
    class_folders(tmp_path / "north" / "Train", 3)
    with pytest.raises(UserError):
        folder(tmp_path, layout="client")
    for name in ("north", "south"):
        picture(tmp_path / layout / name / "Test" / "1.png")
    with pytest.raises(UserError, match=r"Test/ in north/Test/1\.png is neither a client nor a cl"):
        folder(tmp_path / layout, layout=layout)


def test_pipes_and_links_to_themselves(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "data", 5)
    os.mkfifo(root / "a" / "pipe.png")
    (root / "b" / "me.png").symlink_to("me.png")
    listener = Listener()
    data = folder(root, listener)
    assert len(data.train) + len(data.test) == 10
    assert "(a/pipe.png)" in listener.said("no images, left out: 1")
    assert "b/me.png: Too many levels" in listener.said("cannot be read")


def test_sixteen_bits_that_are_fewer_are_said(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(5):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.new("I;16", (9, 9), 4000).save(tmp_path / name / f"{number}.png")
    listener = Listener()
    folder(tmp_path, listener)
    assert len([note for note in listener.notes if "6.1% of their range" in note]) == 2
