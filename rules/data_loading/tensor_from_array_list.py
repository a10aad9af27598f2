from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._array_list_words import builds_from_arrays

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._array_lists import ArrayList

_OBSERVED = "observations of gym environments are arrays"


class TensorFromArrayList(Rule):
    """A tensor is made of a list of NumPy arrays, number by number.

    ## What it does
    Flags `torch.tensor(arrays)`, `torch.as_tensor(arrays)` and `torch.FloatTensor(arrays)` where `arrays` is a list of
    NumPy arrays for certain: a list or comprehension of calls such as `np.stack(...)`, `cv2.resize(...)`,
    `x.cpu().numpy()`, `distribution.sample().numpy()` and functions of the program that return such an array, alone or
    in a tuple; also arrays of a file (`np.load("points.npz")["points"]`), slices of such arrays (`image[..., :3]`),
    other forms of them (`image.transpose(2, 0, 1)`) and arithmetic with them; also if it is built by `append` in the
    same function, or in one that returns it in a tuple; or indices: `[coo.row, coo.col]` of a sparse matrix of SciPy,
    the tuple `np.nonzero(mask)`, the rows of `[linear_sum_assignment(c)[1] for c in costs]`.
    Observations of gym environments are arrays as well, if the program reads the shape of `observation_space`, or makes
    an environment like `CartPole-v1`: those of a batch by their names, next to actions or rewards
    (`states, actions, rewards = zip(*batch)`, `[t.state for t in batch]`, `states.append(state)`), and a single one
    (`[state]`) that comes from `env.reset()` or `env.step()`, in a program with convolutions or with a network of
    another file that gets the whole shape.

    Not reported: lists of numbers, tensors or values of unknown origin, and results of NumPy that are single numbers,
    such as `np.mean(x)`.

    ## Why it is slow
    The list is read as a nested sequence: Python converts each number of each array to an object. `np.array(arrays)`
    copies each array as a whole. torch itself warns that the conversion is extremely slow.

    ## Example
    ```python
    boxes = torch.tensor([np.concatenate(pair) for pair in pairs], dtype=torch.float32)
    ```

    ## Use instead
    ```python
    boxes = torch.tensor(np.array([np.concatenate(pair) for pair in pairs]), dtype=torch.float32)
    ```
    Where all arrays have one shape, `torch.from_numpy(np.stack(arrays))` copies once.

    ## Fix safety
    Safe or unsafe: safe where the call says which type the tensor has (`dtype=`, `torch.FloatTensor`), and the arrays
    contain numbers for certain (`x.cpu().numpy()`, `np.zeros(n)`, `np.asarray(row, dtype=np.float32)`): values and
    shape stay the same. Unsafe otherwise, and for observations: for an empty list, or arrays of several types, NumPy
    may choose another type than torch, and torch converts no array of Python objects, such as
    `np.array(row, dtype=object)` or a row of a pandas table with columns of several types. No fix is offered where a
    comment would be lost.

    ## When to ignore
    When the list has a few small arrays, and the call runs once.

    ## References
    - [torch.from_numpy](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
    - [torch.tensor](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html)
    """

    code = "TL108"
    name = "tensor-from-array-list"
    words = (("torch", "import *"), ("tensor(", "Tensor("))
    project_words = (("numpy", "gym", "observation_space", "scipy"),)
    demo = ("CPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a tensor may be made of a list of arrays."""
        return super().may_concern(text) and builds_from_arrays(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._array_lists import ArrayLists

        for found in module.fact(ArrayLists).all():
            yield self.diagnostic(
                module,
                found.call,
                f"`{module.code(found.call.func)}` of a list of arrays converts them number by number",
                label="`np.array` copies each array as a whole",
                notes=(Note.at(module, found.array, _OBSERVED if found.observed else "this is an array"),),
                fix=_fix(module, found),
            )


def _fix(module: Module, found: ArrayList) -> Fix | None:
    from ._number_lists import NumberLists

    named = edits.name_module(module, "numpy", found.call)
    start, end = module.span(found.data)
    if named is None or "#" in module.text[start:end]:
        return None
    numpy, imported = named
    edited = edits.replace(module, found.data, f"{numpy}.array({module.code(found.data)})")
    if found.keeps_type and not found.observed and module.fact(NumberLists).contains(found.data):
        return Fix("pass one array", (*imported, *edited), Applicability.SAFE)
    caution = "an empty list, or arrays of several types, may give another type"
    if found.keeps_type and not found.observed:
        caution = "arrays of Python objects cannot be converted"
    return Fix("pass one array", (*imported, *edited), Applicability.UNSAFE, caution)
