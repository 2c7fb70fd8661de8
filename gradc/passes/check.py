"""What a well-formed graph is. Tests ask after each pass; a pass that breaks a graph is a fault."""

from __future__ import annotations

from gradc.errors import InternalError
from gradc.graph import Graph, Node, Tensor
from gradc.types import symbols_of

__all__ = ["check"]


def check(graph: Graph) -> None:
    """Raise InternalError unless the graph is well formed.

    Its inputs are inputs, each once, and it reads no others; every tensor is an output of its
    node; operands come before what reads them; types are those that the ops derive from the
    operands' types; every symbol is in the shape of an input; outputs have names of their own.
    """
    _check_inputs(graph)
    nodes = graph.nodes()
    place = {node: k for k, node in enumerate(nodes)}
    bound = {s for x in graph.inputs for d in x.shape for s in symbols_of(d)}
    inputs = set(graph.inputs)
    for k, node in enumerate(nodes):
        for operand in node.inputs:
            _check_tensor(operand, f"operand of {node}")
            if place.get(operand.node, k) >= k:
                raise InternalError(f"{node} comes before its operand {operand}")
        if node.op.name == "input":
            if node.out not in inputs:
                raise InternalError(f"{node.out} is no input of the graph")
        else:
            _check_types(node)
        for output in node.outputs:
            free = {s for d in output.shape for s in symbols_of(d)} - bound
            if free:
                raise InternalError(f"{node}: no input has the size {min(free)}")
    names = [o.name for o in graph.outputs]
    for name in names:
        if names.count(name) > 1:
            raise InternalError(f"two outputs are called {name}")
    for tensor in graph.roots():
        _check_tensor(tensor, "output")


def _check_inputs(graph: Graph) -> None:
    seen: dict[str, Tensor] = {}
    for x in graph.inputs:
        if x.node.op.name != "input":
            raise InternalError(f"the input {x} is made by {x.node.op.name}")
        if x.attrs.name in seen:
            raise InternalError(f"two inputs are called {x.attrs.name}")
        seen[x.attrs.name] = x


def _check_tensor(tensor: Tensor, what: str) -> None:
    outputs = tensor.node.outputs
    if tensor.index >= len(outputs) or outputs[tensor.index] is not tensor:
        raise InternalError(f"{what}: {tensor} is no output of its node")


def _check_types(node: Node) -> None:
    derived = node.op.infer(node.inputs, node.attrs)
    if derived != node.types:
        found = ", ".join(map(str, node.types))
        wanted = ", ".join(map(str, derived))
        raise InternalError(f"{node.op.name}: has type {found}, derived {wanted}")
