"""One step of an RWKV-7 matrix state: NumPy twins and launches.

Per head of N channels, with i the value index and j the key index of the state M [N,N]:

    a = sigmoid(a0 + al)      dec = exp(-exp(clamp(-softplus(-(w0 + wl)) - 0.5, -60, 30)))
    kappa = k k_k / max(|k k_k|, 1e-12)      k' = k (1 + (a - 1) k_a)
    z_i = -sum_j M_ij kappa_j                U_ij = M_ij dec_j + z_i kappa_j a_j + v_i k'_j       tau_i = sum_j U_ij r_j
    n = (tau - mean) rstd [eps 6.4e-4]       t = n lnw + lnb + (sum_j r_j k'_j rk_j) v            y = t g
    M' = U and kept = v, limited to -bound .. bound

Layouts: rkv [3,B,w] (r, k, v), wa [2,B,w] (wl, al), g [B,w], rows [7,B,w] (w0, a0, k_k, k_a, r_k, lnw, lnb; the axis B may be repeated),
state [B,w,N] (channel h N + i, key j). Outputs y [B,w], M' [B,w,N], kept [B,w].
"""
from __future__ import annotations

import numpy as np

from hierarchos.kernels.launch import F32, U32, In, Launch, Lowering, Operand, Out, Profile

EPS = 64e-5
MOST_CHANNELS = 128                                 # of a head


def _heads(x: np.ndarray, n: int) -> np.ndarray:
    """[..., w] -> [..., H, N]."""
    return x.reshape(*x.shape[:-1], -1, n)


def limited(x: np.ndarray, bound: float) -> np.ndarray:
    """Finite values limited to -bound .. bound; others unchanged."""
    return np.where(np.isfinite(x), np.clip(x, -bound, bound), x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


class Step:
    """All intermediate values of one step, heads apart: vectors [B,H,N], matrices [B,H,N,N]."""

    def __init__(self, rkv, wa, g, rows, state, bound: float):
        n = state.shape[-1]
        self.r, self.k, self.v = (_heads(x, n) for x in rkv)
        w0, a0, self.k_k, self.k_a, self.r_k, self.lnw, self.lnb = (_heads(x, n) for x in rows)
        self.g, self.M = _heads(g, n), state.reshape(*self.r.shape, n)
        self.W = w0 + _heads(wa[0], n)
        self.a = sigmoid(a0 + _heads(wa[1], n))
        softplus = np.where(-self.W > 20, -self.W, np.log1p(np.exp(np.minimum(-self.W, 20))))
        self.ww = -softplus - 0.5
        self.rate = np.exp(np.clip(self.ww, -60, 30))
        self.dec = np.exp(-self.rate)
        p = self.k * self.k_k
        self.norm = np.maximum(np.sqrt((p * p).sum(-1, keepdims=True)), 1e-12)
        self.kappa = p / self.norm
        self.key = self.k * (1 + (self.a - 1) * self.k_a)
        self.z = -(self.M @ self.kappa[..., None])[..., 0]
        outer = lambda a, b: a[..., :, None] * b[..., None, :]                       # noqa: E731
        self.U = self.M * self.dec[..., None, :] + outer(self.z, self.kappa * self.a) + outer(self.v, self.key)
        tau = (self.U @ self.r[..., None])[..., 0]
        centred = tau - tau.mean(-1, keepdims=True)
        self.rstd = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
        self.n = centred * self.rstd
        self.bonus = (self.r * self.key * self.r_k).sum(-1, keepdims=True)
        self.t = self.n * self.lnw + self.lnb + self.bonus * self.v
        self.bound = bound

    def outputs(self) -> list[np.ndarray]:
        batch = self.g.shape[0]
        y = (self.t * self.g).reshape(batch, -1)
        return [y, limited(self.U, self.bound).reshape(batch, -1, self.U.shape[-1]), limited(self.v, self.bound).reshape(batch, -1)]


def wkv_reference(bound: float, rkv, wa, g, rows, state) -> list[np.ndarray]:
    """y, the new state and kept."""
    return Step(rkv, wa, g, rows, state, bound).outputs()


def wkv_gradient_reference(bound: float, rkv, wa, g, rows, state, dy, dstate) -> list[np.ndarray]:
    """Gradients of rkv, wa, g, rows and state."""
    s = Step(rkv, wa, g, rows, state, bound)
    n = state.shape[-1]
    dy, batch = _heads(dy, n), len(dy)
    dt, dg = dy * s.g, dy * s.t
    dbonus = (dt * s.v).sum(-1, keepdims=True)
    dv, dr, dkey, dr_k = dt * s.bonus, dbonus * s.key * s.r_k, dbonus * s.r * s.r_k, dbonus * s.r * s.key
    h = dt * s.lnw
    dtau = s.rstd * (h - h.mean(-1, keepdims=True) - s.n * (h * s.n).mean(-1, keepdims=True))
    inside = (np.abs(s.U) <= bound)
    dU = np.where(inside, dstate.reshape(s.U.shape), 0) + dtau[..., :, None] * s.r[..., None, :]
    dr = dr + (dtau[..., None, :] @ s.U)[..., 0, :]
    dz = (dU @ (s.kappa * s.a)[..., None])[..., 0]
    dv = dv + (dU @ s.key[..., None])[..., 0]
    dkey = dkey + (s.v[..., None, :] @ dU)[..., 0, :]
    dremove = (s.z[..., None, :] @ dU)[..., 0, :]
    dkappa = dremove * s.a - (dz[..., None, :] @ s.M)[..., 0, :]
    ddec = (dU * s.M).sum(-2)
    dM = dU * s.dec[..., None, :] - dz[..., :, None] * s.kappa[..., None, :]
    da = dremove * s.kappa + dkey * s.k * s.k_a
    dk = dkey * (1 + (s.a - 1) * s.k_a)
    dk_a = dkey * s.k * (s.a - 1)
    along = np.where(s.norm > 1e-12, s.kappa * (s.kappa * dkappa).sum(-1, keepdims=True), 0)
    dp = (dkappa - along) / s.norm
    dk = dk + dp * s.k_k
    dW = np.where((s.ww >= -60) & (s.ww <= 30), -s.dec * ddec * s.rate, 0) * np.where(-s.W > 20, 1, sigmoid(-s.W))
    da0 = da * s.a * (1 - s.a)
    flat = lambda *xs: np.stack([x.reshape(batch, -1) for x in xs])                   # noqa: E731
    return [flat(dr, dk, dv), flat(dW, da0), dg.reshape(batch, -1), flat(dW, da0, dp * s.k, dk_a, dr_k, dt * s.n, dt),
            dM.reshape(state.shape)]


def wkv(bound: float, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs rkv, wa, g, rows, state; outputs y, new state, kept. One workgroup a head and row."""
    arguments = (*map(In, range(5)), Out(0), Out(1), Out(2), *_sizes(inputs), F32(bound))
    return Lowering((_launch("wkv", arguments, inputs, 8.0, profile),))


def wkv_gradient(bound: float, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs of `wkv`, then dy and the gradient of the new state; outputs gradients of rkv, wa, g, rows, state."""
    arguments = (*map(In, range(7)), *map(Out, range(5)), *_sizes(inputs), F32(bound))
    return Lowering((_launch("wkv_gradient", arguments, inputs, 24.0, profile),))


def _sizes(inputs: list[Operand]) -> tuple[U32, ...]:
    """width, batch, the strides of `rows` along its kinds and along the batch, channels of a head."""
    batch, width, head = inputs[4].shape
    return U32(width), U32(batch), U32(inputs[3].strides[0]), U32(inputs[3].strides[1] if batch > 1 else 0), U32(head)


def _launch(shader: str, arguments: tuple, inputs: list[Operand], operations: float, profile: Profile) -> Launch:
    batch, width, head = inputs[4].shape
    local = -(-head // profile.subgroup) * profile.subgroup
    assert head <= MOST_CHANNELS, f"a head of {head} channels; the kernel takes {MOST_CHANNELS}"
    moved = 4.0 * batch * width * (2 * head + 20)
    return Launch(shader, (width // head, batch, 1), arguments, (local,), shader, operations * batch * width * head, moved)
