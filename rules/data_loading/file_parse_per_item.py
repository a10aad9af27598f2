from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class FileParsePerItem(Rule):
    """A dataset reads or opens the same file again for every item.

    ## What it does
    Flags calls in `__getitem__` of a `torch.utils.data.Dataset`, or in a function or method that it calls, that read a
    whole file or open a container file, if the path is the same for all items: it consists of constants and of
    attributes of `self`, or of an object that the dataset keeps, that `__getitem__` does not set.

    Functions that read a whole file are `pandas.read_csv` and its relatives, `json.load`, `pickle.load`, `yaml.load`,
    `numpy.load`, `torch.load`, `scipy.io.loadmat`, `csv.reader`, and `read()` and `readlines()` of an open file. Those
    that open a container are `h5py.File`, `lmdb.open`, `zipfile.ZipFile`, `tarfile.open` and `sqlite3.connect`.

    Not flagged are files of one item each, files that are kept after the first item (`if self.file is None:`, a cache),
    and calls that read a part of a file (`mmap_mode=`, `nrows=`, `seek()`).

    ## Why it is slow
    Each item costs as much as the whole file: a table of 100,000 rows is parsed 100,000 times per epoch. Opening an
    HDF5, LMDB or zip file reads its index, which takes longer than to read one item.

    ## Example
    ```python
    class Prices(Dataset):
        def __init__(self, path):
            self.path = path

        def __getitem__(self, index):
            table = pd.read_csv(self.path)
            return torch.tensor(table.iloc[index].to_numpy())
    ```

    ## Use instead
    ```python
    class Prices(Dataset):
        def __init__(self, path):
            self.rows = torch.tensor(pd.read_csv(path).to_numpy())

        def __getitem__(self, index):
            return self.rows[index]
    ```
    If the file does not fit into memory, map it (`np.load(path, mmap_mode="r")`, `torch.load(path, mmap=True)`) or
    convert it to a format with an index. Open an HDF5 or LMDB file at the first item, not in `__init__`: worker
    processes cannot share an open file.

    ```python
    if self.file is None:
        self.file = h5py.File(self.path, "r")
    ```

    ## Fix safety
    Advice, no fix: where the data is kept depends on its size.

    ## When to ignore
    Ignore it if another process changes the file while the program runs.

    ## References
    - [torch.utils.data: map-style datasets](https://docs.pytorch.org/docs/stable/data.html#map-style-datasets)
    """

    code = "TL107"
    name = "file-parse-per-item"
    words = (
        (
            *("read_csv(", "read_table(", "read_json(", "read_parquet(", "read_pickle(", "read_excel(", "read_hdf("),
            *("read_feather(", "read_xml(", "read_fwf(", ".load(", " load(", "loadtxt(", "genfromtxt(", "fromfile("),
            *("loadmat(", "_load(", "csv.reader(", "DictReader(", "COCO(", "soundfile", ".read()", ".readlines()"),
            *("h5py", "lmdb", "ZipFile(", "tarfile", "sqlite3"),
        ),
    )
    project_words = ("torch", "Dataset", ("def __getitem__", "h5py", "lmdb", "ZipFile(", "tarfile", "sqlite3"))
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._reparsed import ReparsedFiles

        for found in module.fact(ReparsedFiles).all():
            notes = []
            if found.helper is not None:
                notes.append(Note.at(module, found.helper, "`__getitem__` calls it for every item"))
            yield self.diagnostic(
                module,
                found.call,
                f"`{module.code(found.call.func)}` {'opens the same' if found.opens else 'reads the same whole'} file"
                " for every item",
                label="the path is the same for all items",
                notes=tuple(notes),
            )
