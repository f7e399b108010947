"""Where labels go, so that they cover little."""

from __future__ import annotations

import numpy as np


def place_labels(
    anchors: np.ndarray, sizes: np.ndarray, *, markers: np.ndarray, radius: float, crowd: np.ndarray, limit: float
) -> np.ndarray:
    """Centres of text boxes beside their anchors, chosen one after the other so that they cover little.

    Args:
        anchors: `[P, 2]`, what the texts are about.
        sizes: `[P, 2]`, width and height of the boxes, in the unit of the anchors.
        markers: `[M, 2]`, places of markers that should not be covered, the anchors among them.
        radius: of the markers.
        crowd: `[K, 2]`, further points that are better left free (paths); NaN is nowhere.
        limit: no box should leave the square of this half side around the origin.

    Returns:
        `[P, 2]`.
    """
    angles = np.arange(16) * np.pi / 8
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    placed = np.zeros((0, 4))
    for anchor, size in zip(anchors, sizes, strict=True):
        options = np.concatenate([anchor + directions * (radius * stretch + size / 2) for stretch in (1.35, 2.2, 3.2)])
        half = np.broadcast_to(size / 2, options.shape)
        hits = 10 * _overlaps(options, half, placed[:, :2], placed[:, 2:])
        hits += 6 * _overlaps(options, half, markers, np.full(2, radius))
        hits += 30 * (np.abs(options) + half > limit).any(axis=1)
        # Nearer places come first, and among equal ones the right side, where one looks for a label.
        nuisance = 0.2 * _overlaps(options, half, crowd, np.zeros(2)) + np.arange(len(options)) // len(directions)
        best = options[(hits + nuisance).argmin()]
        placed = np.concatenate([placed, np.concatenate([best, size / 2])[None]])
    return placed[:, :2]


def _overlaps(centre: np.ndarray, half: np.ndarray, others: np.ndarray, others_half: np.ndarray) -> np.ndarray:
    """`[O]`: how many of the boxes `others` `[M, 2]` each box `centre` `[O, 2]` meets."""
    gap = np.abs(centre[:, None] - others[None])
    return (gap < half[:, None] + others_half).all(axis=2).sum(axis=1)
