"""Whether a network computes something else in evaluation mode than in training mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.parameters import owner_of

#: Libraries whose networks contain batch norm or dropout, as far as it is not known of which class they are.
_WITH_MODE = knowledge.TORCH_LIBRARIES - {"kornia", "apex"} | frozenset(
    "efficientnet_pytorch facenet_pytorch pretrainedmodels pytorch_pretrained_bert pytorch_transformers resnest "
    "segmentation_models_pytorch speechbrain torchaudio torchreid torchvision".split()
)
#: Networks whose `features` are convolutions, activations and pooling only; the dropout is in their `classifier`.
_PLAIN_FEATURES = re.compile(r"torchvision\.models\.(\w+\.)?(alexnet|vgg\d+|squeezenet\w+)")


class ModeDependence(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values

    def of(self, constructor: cst.Call) -> bool:
        """Whether the network that ``constructor`` builds depends on its mode; a class out of sight counts as yes."""
        for definition in self._definitions.called(constructor, self._values):
            if isinstance(definition, cst.ClassDef):
                return self._class_depends(definition, set(), (constructor,))
        name = self._names.resolve(constructor.func) or ""
        if name == "torch.nn.Sequential":
            inner = [call for call in self._tree.calls_in(constructor) if call is not constructor]
            return any(self._call_depends(call, set(), ()) for call in inner)
        return self._layer_depends(constructor, name, ()) if name.startswith("torch.nn.") else True

    def _class_depends(self, definition: cst.ClassDef, seen: set[object], made: tuple[cst.Call, ...]) -> bool:
        """Whether the networks of a class depend on the mode; ``made`` are the calls that make one, innermost last."""
        visit = (definition, made[-1] if made else None)
        if visit in seen:
            return False
        seen.add(visit)
        return (
            any(
                self._call_depends(call, seen, made)
                for current in self._definitions.lineage(definition)
                for call in self._tree.calls_in(current)
                if not self._is_unreached(call, definition, made)
            )
            or any(self._class_depends(part, seen, ()) for part in self._parts(definition))
            or self._reads_training(definition)
        )

    def _is_unreached(self, call: cst.Call, definition: cst.ClassDef, made: tuple[cst.Call, ...]) -> bool:
        """Whether ``call`` is in a branch that no call of its method takes: ``if norm:`` with ``norm=False``."""
        method = self._tree.function_of(call)
        if not isinstance(method, cst.FunctionDef):
            return False
        excludes = self._values.branches.excludes
        if method.name.value == "__init__":
            is_own = bool(made) and self._tree.class_of(method) is definition
            return is_own and excludes(made[-1], method, call)
        callers = self._definitions.callers(method, self._values)
        return callers.complete and bool(callers.calls) and all(excludes(item, method, call) for item in callers.calls)

    def _parts(self, definition: cst.ClassDef) -> Iterator[cst.ClassDef]:
        """The classes of the networks that a network is given: ``self.encoder = encoder``."""
        for current in self._definitions.lineage(definition):
            for bindings in self._tree.scopes[current].attributes.values():
                for value in (self._values.of(item.value) for item in bindings if isinstance(item.value, cst.Name)):
                    if value.kind is Kind.MODULE and isinstance(value.definition, cst.ClassDef):
                        yield value.definition

    def _reads_training(self, definition: cst.ClassDef) -> bool:
        return any(
            self._tree.within(node, definition) and not self._only_selects(node)
            for node in self._tree.attributes_named("training")
        )

    def _only_selects(self, training: cst.Attribute) -> bool:
        """Whether ``if self.training:`` only decides which of the values that are there already is returned."""
        branch = self._tree.parent(training)
        if isinstance(branch, cst.UnaryOperation):
            branch = self._tree.parent(branch)
        if not isinstance(branch, cst.If):
            return False
        other: cst.CSTNode | None = branch.orelse.body if isinstance(branch.orelse, cst.Else) else None
        if branch.orelse is None:
            block, position, _ = self._tree.block_path(branch)[0]
            rest = block.body[position + 1 :] if isinstance(block, cst.IndentedBlock) else ()
            other = rest[0] if rest else None
        return self._only_returns(branch.body) and self._only_returns(other)

    def _only_returns(self, code: cst.CSTNode | None) -> bool:
        """Whether a block, or a line, does nothing but return names, attributes and items."""
        while isinstance(code, (cst.IndentedBlock, cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            code = code.body[0] if len(code.body) == 1 else None
        return isinstance(code, cst.Return) and not any(
            isinstance(part, (cst.Call, cst.BinaryOperation)) for part in self._tree.nodes_in(code)
        )

    def _call_depends(self, call: cst.Call, seen: set[object], made: tuple[cst.Call, ...]) -> bool:
        name = self._names.resolve(call.func)
        if name is not None:
            if name.startswith("torch.nn.") and not name.startswith(("torch.nn.functional.", "torch.nn.init.")):
                return self._layer_depends(call, name, made)
            if last_part(name).startswith("dropout"):
                return True
            is_plain = _PLAIN_FEATURES.fullmatch(name) is not None and self._only_has_features(call)
            return not is_plain and name.partition(".")[0] in _WITH_MODE
        return any(
            self._class_depends(definition, seen, (*made, call))
            if isinstance(definition, cst.ClassDef)
            else self._function_depends(definition, call, seen)
            for definition in self._definitions.called(call, self._values)
        )

    def _only_has_features(self, call: cst.Call) -> bool:
        """Whether nothing but the ``features`` of a network are used: ``vgg19(pretrained=True).features[:21]``."""
        statement = self._tree.parent(call)
        targets = [item.target for item in statement.targets] if isinstance(statement, cst.Assign) else []
        variable = self._names.variable(targets[0]) if len(targets) == 1 and isinstance(targets[0], cst.Name) else None
        uses = [use for use in self._names.uses_in(*variable) if use not in targets] if variable is not None else [call]
        taken = [self._tree.parent(use) for use in uses]
        return all(isinstance(item, cst.Attribute) and item.attr.value == "features" for item in taken)

    def _function_depends(self, function: cst.FunctionDef, call: cst.Call, seen: set[object]) -> bool:
        """Whether a call of a function makes or runs something that depends on the mode: ``conv_bn(3, 64)``."""
        if (function, call) in seen:
            return False
        seen.add((function, call))
        return any(
            self._call_depends(inner, seen, ())
            for inner in self._tree.calls_in(function.body)
            if not self._is_left_out(inner, function, call)
        )

    def _is_left_out(self, inner: cst.Call, function: cst.FunctionDef, call: cst.Call) -> bool:
        """Whether ``call`` gives nothing for what ``inner`` needs: ``norm(norm_type) if norm_type else None``."""
        for item in branches(self._tree, inner, function):
            if not item.is_else:
                param = self._names.parameter(item.test)
                if param is not None and owner_of(self._tree, param) is function:
                    given = self._definitions.argument_of(call, function, param) or param.default
                    if not any(argument.star for argument in call.args) and dotted_name(given) in ("None", "False"):
                        return True
        return False

    def _layer_depends(self, call: cst.Call, name: str, made: tuple[cst.Call, ...]) -> bool:
        """Whether a layer of torch depends on the mode; dropout with a rate of 0 and plain instance norm do not."""
        last = last_part(name)
        if "InstanceNorm" in last:
            tracks = keyword(call, "track_running_stats")
            return tracks is not None and dotted_name(tracks) != "False"
        if last.startswith("Dropout") and call.args and self._is_zero(call.args[0].value, made):
            return False
        depends = name in knowledge.MODE_DEPENDENT_WHOLE or any(word in last for word in knowledge.MODE_DEPENDENT)
        return depends or any(
            argument.keyword is not None
            and argument.keyword.value == "dropout"
            and not self._is_zero(argument.value, made)
            for argument in call.args
        )

    def _is_zero(self, node: cst.BaseExpression, made: tuple[cst.Call, ...]) -> bool:
        """Whether a rate is 0, in a class whose parameters have the values that ``made`` passes, or their defaults."""
        if isinstance(node, (cst.Float, cst.Integer)):
            return node.evaluated_value == 0
        param = self._parameter(node)
        function = owner_of(self._tree, param) if param is not None else None
        if param is None or not isinstance(function, cst.FunctionDef) or not made:
            return False
        if any(item.star for item in made[-1].args):
            return False
        given = self._definitions.argument_of(made[-1], function, param)
        if given is None:
            return param.default is not None and self._is_zero(param.default, ())
        return self._is_zero(given, made[:-1])

    def _parameter(self, node: cst.BaseExpression) -> cst.Param | None:
        """The parameter of a constructor that a name is."""
        function = self._tree.function_of(node)
        is_in_constructor = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        return self._names.parameter(node) if is_in_constructor else None
