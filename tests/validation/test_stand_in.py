"""Stand-ins are the same mathematics as PyTorch, rounded another way, and the same every time."""

import pytest

torch = pytest.importorskip("torch")

from validation.parity.shuffled import UNIT, RoundedResults  # noqa: E402


def layer(x, weight):
    return torch.nn.functional.silu(torch.nn.functional.linear(x, weight)).masked_fill(x[..., :1] > 2, torch.finfo(torch.float32).min)


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in ((3, 5, 33), (17, 33))]


def results(tensors, seed):
    """Output and gradients of one run."""
    with RoundedResults(seed):
        y = layer(*tensors)
        return y.detach(), *torch.autograd.grad(y.clamp(min=-10).square().sum(), tensors)


def test_a_stand_in_repeats_itself_and_another_differs(tensors):
    first, again, other = (results(tensors, seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_only_rounding_differs(tensors):
    exact = [t.detach().double().requires_grad_() for t in tensors]
    y = layer(*exact)
    truth = y.detach(), *torch.autograd.grad(y.clamp(min=-10).square().sum(), exact)
    for found, expected in zip(results(tensors, 1), truth, strict=True):
        error = (found.double() - expected).abs()[expected.abs() < 1e30].max()
        assert 0 < error <= 64 * UNIT * expected.abs()[expected.abs() < 1e30].max()


def test_a_result_moves_by_a_unit_in_the_last_place_at_most():
    x = torch.linspace(1, 2, 1000, requires_grad=True)
    with RoundedResults(1):
        moved = (x * 1.0).detach() - x.detach()
    assert moved.abs().max() == 2 * UNIT and (moved != 0).double().mean() > 0.1


def test_copies_masks_and_what_depends_on_no_parameter_stay_as_they_are():
    x = torch.linspace(1, 2, 1000, requires_grad=True)
    with RoundedResults(1):
        copied = torch.cat([x, x]).reshape(2, 1000)[1].clone()
        masked = x.masked_fill(x > 1.5, torch.finfo(torch.float32).min)
        angles = x.detach() * 3
    assert torch.equal(copied, x) and torch.equal(masked[x <= 1.5], x[x <= 1.5]) and masked.isfinite().all()
    assert torch.equal(angles, x.detach() * 3)
