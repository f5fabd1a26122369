#!/usr/bin/python3
"""Writes reference.txt beside itself: layers and losses of PyTorch in float64, forward and backward.

Each case is a line "case NAME" and lines "tensor NAME SHAPE : VALUES": inputs (x, and parameters by our names), the
head gradient, the output y, and gradients "grad_NAME". Inputs are drawn from a seed, as float32 numbers.
Debian: python3-torch.
"""
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(5)


def draw(*shape):
    return torch.rand(*shape, dtype=torch.float32).mul(2).sub(1).double()


def tensor(name, value):
    value = value.detach()
    shape = "x".join(str(extent) for extent in value.shape)
    return f"tensor {name} {shape} : " + " ".join(f"{number:.9g}" for number in value.flatten().tolist())


def case(name, function, inputs, constants=None, after=None):
    """`function` of inputs, which get gradients, and constants; `after` says what else to record."""
    constants = constants or {}
    inputs = {key: value.requires_grad_(True) for key, value in inputs.items()}
    y = function(**inputs, **constants)
    head = draw(*y.shape)
    y.backward(head)
    lines = [f"case {name}"]
    lines += [tensor(key, value) for key, value in {**inputs, **constants}.items()]
    lines += [tensor("head", head), tensor("y", y)]
    lines += [tensor("grad_" + key, value.grad) for key, value in inputs.items()]
    lines += [tensor(key, value) for key, value in (after or {}).items()]
    return lines


def batch_norm_cases():
    mean, variance = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)

    def batch_norm(training):
        def run(x, gamma, beta):
            # PyTorch's momentum is the weight of the new value.
            return F.batch_norm(x, mean, variance, gamma, beta, training=training, momentum=0.1, eps=1e-5)
        return run

    def inputs():
        return {"x": draw(4, 3, 2, 3), "gamma": draw(3), "beta": draw(3)}

    after = {"running_mean": mean, "running_var": variance}
    return (case("batch_norm_training", batch_norm(True), inputs(), after=after)
            + case("batch_norm_evaluation", batch_norm(False), inputs(), after=after))


def recurrent_case(name, module, lengths=None):
    """Outputs of two layers in both directions, then their final states, in one line of numbers."""
    module = module(input_size=3, hidden_size=4, num_layers=2, bidirectional=True, batch_first=True).double()
    ours = {}  # by our names, theirs
    for theirs in dict(module.named_parameters()):
        kind, part, layer, *reverse = theirs.split("_")
        ours[f"{'r' if reverse else 'l'}{layer[1:]}_{part[0]}2h_{kind}"] = theirs
    parameters = {key: draw(*getattr(module, theirs).shape) for key, theirs in ours.items()}
    states = {key: draw(4, 2, 4) for key in ("hidden", "cell")[:2 if module.mode == "LSTM" else 1]}
    constants = dict(states, **({"lengths": torch.tensor(lengths)} if lengths else {}))

    def run(x, lengths=None, hidden=None, cell=None, **weights):
        packed = x if lengths is None else torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        begin = hidden if cell is None else (hidden, cell)
        module._flat_weights = [weights[key] for key in ours]  # what forward takes them from
        y, last = module(packed, begin)
        if lengths is not None:
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        return torch.cat([y.flatten()] + [state.flatten() for state in (last if cell is not None else [last])])

    return case(name, run, {"x": draw(2, 5, 3), **parameters}, constants)


def recurrent_cases():
    rnn = torch.nn.RNN
    return (recurrent_case("rnn_tanh", rnn) + recurrent_case("rnn_relu", lambda **sizes: rnn(nonlinearity="relu", **sizes))
            + recurrent_case("lstm", torch.nn.LSTM) + recurrent_case("gru", torch.nn.GRU)
            + recurrent_case("lstm_lengths", torch.nn.LSTM, [2, 4]) + recurrent_case("gru_lengths", torch.nn.GRU, [5, 3]))


def main():
    lines = [f"# make_reference.py, PyTorch {torch.__version__}, float64"]
    lines += case("conv", lambda x, weight, bias: F.conv2d(x, weight, bias, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
                  {"x": draw(2, 4, 5, 6), "weight": draw(6, 2, 3, 2), "bias": draw(6)})
    lines += case("conv_transpose",
                  lambda x, weight, bias: F.conv_transpose2d(x, weight, bias, stride=(2, 3), padding=(1, 0), output_padding=(1, 2),
                                                             groups=2, dilation=(2, 1)),
                  {"x": draw(2, 4, 3, 2), "weight": draw(4, 3, 3, 2), "bias": draw(6)})
    lines += batch_norm_cases()
    lines += case("layer_norm", lambda x, gamma, beta: F.layer_norm(x, (5,), gamma, beta, 1e-5),
                  {"x": draw(3, 2, 5), "gamma": draw(5), "beta": draw(5)})
    for name, function in {
            "leaky_relu": lambda x: F.leaky_relu(x, 0.01), "elu": F.elu, "gelu": F.gelu, "softplus": F.softplus, "silu": F.silu}.items():
        lines += case(name, lambda x, f=function: f(x), {"x": draw(4, 5) * 4})
    lines += case("embedding", lambda weight, ids: F.embedding(ids, weight), {"weight": draw(5, 3)}, {"ids": torch.tensor([[4, 0, 4], [1, 1, 2]])})
    labels = torch.tensor([2, 0, 3])
    for name, smoothing in {"cross_entropy": 0.0, "cross_entropy_smoothed": 0.1}.items():
        lines += case(name, lambda x, label: F.cross_entropy(x, label, reduction="none", label_smoothing=smoothing), {"x": draw(3, 4)},
                      {"label": labels})
    lines += case("cross_entropy_probabilities", lambda x, label: F.cross_entropy(x, label, reduction="none", label_smoothing=0.1),
                  {"x": draw(3, 4)}, {"label": torch.softmax(draw(3, 4), 1)})
    half = torch.tensor(0.5, dtype=torch.float64)
    for name, function in {
            "l1": lambda x, label: F.l1_loss(x, label, reduction="none"),
            # PyTorch's Huber is rho times Gluon's.
            "huber": lambda x, label: F.huber_loss(x, label, reduction="none", delta=0.5) / half,
            "logistic": lambda x, label: F.binary_cross_entropy_with_logits(x, label, reduction="none"),
            "kl_div": lambda x, label: F.kl_div(F.log_softmax(x, 1), label, reduction="none")}.items():
        lines += case(name, lambda x, label: function(x, label).mean(1), {"x": draw(3, 4)}, {"label": torch.softmax(draw(3, 4), 1)})
    lines += recurrent_cases()
    for name, function in {"softsign": F.softsign, "log_sigmoid": F.logsigmoid, "mish": F.mish}.items():
        lines += case(name, lambda x, f=function: f(x), {"x": draw(4, 5) * 4})
    steps = torch.tensor([[2, 0, 3], [1, 1, 0]])
    lines += case("cross_entropy_steps",
                  lambda x, label: F.cross_entropy(x.transpose(1, 2), label, reduction="none", label_smoothing=0.1).mean(1),
                  {"x": draw(2, 3, 4)}, {"label": steps})
    (pathlib.Path(__file__).parent / "reference.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
