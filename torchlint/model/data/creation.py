"""The functions of torch that create tensors, and the methods whose result is another form of the same tensor."""

#: ``torch.<name>(...)`` that makes a tensor of a size, out of nothing that lies on the host.
EXACT = frozenset({"empty", "eye", "full", "ones", "zeros"})
ROUNDED = frozenset({"arange", "linspace", "logspace"})
DRAWN = frozenset({"rand", "randint", "randn", "randperm"})
FACTORIES = EXACT | ROUNDED | DRAWN
#: Methods that give the same values on any device.
SAME_EVERYWHERE = frozenset(
    "long int float double half bfloat16 bool byte short view reshape unsqueeze squeeze expand repeat t transpose "
    "permute contiguous flatten fill_ zero_ triu tril".split()
)
#: ... and methods whose last digits may differ, called without arguments or with numbers.
COMPUTING = frozenset(
    "mul mul_ add add_ sub sub_ div div_ pow exp exp_ log sqrt rsqrt square neg neg_ abs clamp clamp_ sigmoid tanh "
    "round floor sin cos".split()
)
#: ... and methods whose result shares no memory among its elements.
COPYING = frozenset({"repeat", "triu", "tril"}) | {name for name in COMPUTING if name[-1] != "_"}
DRAWING = frozenset({"uniform_", "normal_", "random_", "bernoulli_", "exponential_"})
#: Methods that give all elements a value.
FILLING = DRAWING | {"fill_", "zero_"}
#: ``torch.<name>(...)`` of sizes that makes a tensor without values, and of data one of these values.
LEGACY = frozenset(
    f"{name}Tensor" for name in ("", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
)
