"""The functions of torch that create tensors, and the methods that give another form of one."""

#: ``torch.<name>(...)`` that makes a tensor of a size, out of nothing that lies on the host.
EXACT = frozenset({"empty", "eye", "full", "ones", "zeros", "tril_indices", "triu_indices"})
WINDOWS = frozenset(f"{name}_window" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser"))
ROUNDED = frozenset({"arange", "linspace", "logspace"}) | WINDOWS
DRAWN = frozenset({"rand", "randint", "randn", "randperm"})
FACTORIES = EXACT | ROUNDED | DRAWN
#: ... and that does so if it is given a size: ``torch.normal(0, 1, size)``, but not ``torch.normal(mean, std)``.
DRAWN_IF_SIZED = frozenset({"normal"})
#: Methods that give the same values on any device.
SAME_EVERYWHERE = frozenset(
    "long int float double half bfloat16 bool byte short view view_as reshape reshape_as unsqueeze unsqueeze_ squeeze "
    "squeeze_ expand expand_as repeat repeat_interleave tile t t_ transpose transpose_ swapaxes permute movedim narrow "
    "unfold flip roll contiguous flatten clone detach fill_ zero_ triu tril diag".split()
)
#: ... without those that change the tensor or select from it
WHOLE = frozenset(name for name in SAME_EVERYWHERE if name[-1] != "_") - {"narrow", "diag", "unfold"}
#: ... and methods whose last digits may differ, called without arguments or with numbers.
COMPUTING = frozenset(
    "mul mul_ add add_ sub sub_ div div_ pow pow_ exp exp_ log log2 log10 log1p sqrt rsqrt reciprocal square neg neg_ "
    "abs sign clamp clamp_ sigmoid tanh round floor ceil sin cos cumsum eq ne gt ge lt le logical_not".split()
)
#: ``torch.<name>(...)`` that computes from tensors alone, all of which may be new.
JOINING = frozenset({"cat", "concat", "stack", "hstack", "vstack", "meshgrid", "outer", "ger", "pow"})
#: ``torch.<name>(x)`` that makes a tensor of the size of another one, on its device.
LIKE = frozenset(f"{name}_like" for name in ("empty", "full", "ones", "rand", "randint", "randn", "zeros"))
#: ... and methods whose result shares no memory among its elements.
COPYING = frozenset({"repeat", "repeat_interleave", "tile", "clone", "flip", "roll", "triu", "tril", *LIKE}) | {
    name for name in COMPUTING if name[-1] != "_"
}
#: Functions of einops that give another form of a tensor, which is their first argument.
OF_EINOPS = frozenset({"einops.rearrange", "einops.repeat"})
#: Methods that need the values on the host.
READING = frozenset({"item", "tolist", "numpy"})
DRAWING = frozenset({"uniform_", "normal_", "random_", "bernoulli_", "exponential_"})
#: Methods that give all elements a value.
FILLING = DRAWING | {"fill_", "zero_"}
#: ``torch.<name>(...)`` of sizes that makes a tensor without values, and of data one of these values.
LEGACY = frozenset(
    f"{name}Tensor" for name in ("", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
)
