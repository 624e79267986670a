"""Simplices that tile a simplex, halved at an edge.

A cell is the convex hull of k affinely independent distributions, its vertices. Halving replaces one end of an edge
by the midpoint, once each: the two halves share a face and fill the cell. From unit vectors on, the coordinates are
dyadic and the tiling is exact for 52 halvings; later each halving moves a coordinate by at most half an eps of
itself. Nothing else is assumed of the stored vertices than that they are those of an exact tiling up to a relative
error of `DEPTH` eps.
"""

import numpy as np

EPS = float(np.finfo(np.float64).eps)
# Cells are halved this often at most.
DEPTH = 200


def distances(points: np.ndarray) -> np.ndarray:
    """sum (a - b)^2/(a + b) between each two of the k points (C, k, d) of a cell, shape (C, k(k-1)/2).

    Twice the loss of -H between its chord and its value at the middle of the edge, to leading order.
    """
    first, second = np.triu_indices(points.shape[1], 1)
    total = points[:, first] + points[:, second]
    square = (points[:, first] - points[:, second]) ** 2
    return np.divide(square, total, out=np.zeros_like(total), where=total > 0).sum(axis=2)


def halves(vertices: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Cells (C, k, d) halved at their longest edge, shape (2 C, k, d): all first halves, then all second halves."""
    first, second = np.triu_indices(vertices.shape[1], 1)
    edge = lengths.argmax(axis=1)
    row, begin, end = np.arange(len(vertices)), first[edge], second[edge]
    middle = 0.5 * (vertices[row, begin] + vertices[row, end])
    pair = np.concatenate([vertices, vertices])
    pair[row, begin] = middle
    pair[len(vertices) + row, end] = middle
    return pair
