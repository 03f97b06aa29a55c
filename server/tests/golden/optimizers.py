"""Prints the golden numbers of server/src/optimizer/tests.rs.

Independent of the server: numpy in float64, straight from the papers' formulas. Settings and inputs
are rounded to float32 first, as the server holds them, so that only the arithmetic differs.

Run: python3 optimizers.py    (needs numpy)
"""

import numpy as np

# Four pushes of three coordinates: signs change, a zero, sizes from 0.01 to 3.
GRADIENTS = [
    [0.5, -1.0, 0.01],
    [-0.25, 0.0, 0.02],
    [1.5, 3.0, -0.03],
    [0.125, -0.5, 0.01],
]
START = [0.1, -0.2, 0.0]


def f32(x):
    """Rounds as the server's settings and inputs are rounded."""
    return np.float64(np.float32(x))


def sgd(w, g, state, t, lr, l2):
    return w - lr * (g + l2 * w)


def momentum(w, g, state, t, lr, mu, l2):
    g = g + l2 * w
    state["v"] = mu * state.get("v", np.zeros_like(w)) + g
    return w - lr * state["v"]


def adagrad(w, g, state, t, lr, start, eps, l2):
    g = g + l2 * w
    state["a"] = state.get("a", np.full_like(w, start)) + g**2
    return w - lr * g / np.sqrt(state["a"] + eps)


def rowwise_adagrad(w, g, state, t, lr, start, eps, l2):
    g = g + l2 * w
    state["a"] = state.get("a", start) + np.mean(g**2)
    return w - lr * g / np.sqrt(state["a"] + eps)


def adam(w, g, state, t, lr, beta1, beta2, eps, l2):
    g = g + l2 * w
    state["m"] = beta1 * state.get("m", np.zeros_like(w)) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", np.zeros_like(w)) + (1 - beta2) * g**2
    m_hat = state["m"] / (1 - beta1**t)
    v_hat = state["v"] / (1 - beta2**t)
    return w - lr * m_hat / (np.sqrt(v_hat) + eps)


def ftrl(w, g, state, t, alpha, beta, l1, l2):
    if not state:
        # The z that gives back the initial weights; algorithm 1 itself starts at 0.
        state["z"] = np.where(w == 0, 0.0, -w * (beta / alpha + l2) - np.sign(w) * l1)
        state["n"] = np.zeros_like(w)
    z, n = state["z"], state["n"]
    sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / alpha
    z = z + g - sigma * w
    n = n + g**2
    state["z"], state["n"] = z, n
    solution = -(z - np.sign(z) * l1) / ((beta + np.sqrt(n)) / alpha + l2)
    return np.where(np.abs(z) <= l1, 0.0, solution)


# Epsilons are far larger than anybody's, so that a wrong place of theirs would show.
RUNS = [
    ("sgd", sgd, dict(lr=0.1, l2=0.01)),
    ("momentum", momentum, dict(lr=0.1, mu=0.9, l2=0.01)),
    ("adagrad", adagrad, dict(lr=0.1, start=0.1, eps=0.01, l2=0.01)),
    ("rowwise_adagrad", rowwise_adagrad, dict(lr=0.1, start=0.1, eps=0.01, l2=0.01)),
    ("adam", adam, dict(lr=0.1, beta1=0.9, beta2=0.999, eps=0.01, l2=0.01)),
    ("ftrl", ftrl, dict(alpha=0.1, beta=1.0, l1=0.05, l2=1.0)),
]

for name, step, settings in RUNS:
    settings = {k: f32(v) for k, v in settings.items()}
    w, state = np.array([f32(x) for x in START]), {}
    print(name)
    for t, g in enumerate(GRADIENTS, start=1):
        w = step(w, np.array([f32(x) for x in g]), state, t, **settings)
        print("    [" + ", ".join(f"{x:.9}" for x in w) + "],")
