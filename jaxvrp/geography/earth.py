"""Latitude and longitude as kilometres of a plane that touches the earth in the middle of the places, and back.

A place is looked at along the vertical of the middle (orthographic, on the ellipsoid of WGS 84). A distance on the
plane is shorter than that on the ground by up to 0.01 % where the places lie within 100 km, and by less than 0.1 %
within `WIDEST`. The equirectangular map, which is simpler, is wrong by 0.9 % at the edge of 100 km in the middle of
Europe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

RADIUS, FLATTENING = 6378.137, 1 / 298.257223563
"""Kilometres, of WGS 84."""

SQUARE = FLATTENING * (2 - FLATTENING)
"""Of the eccentricity of the ellipsoid."""

WIDEST = 300.0
"""Kilometres that places may span from north to south, and from west to east."""

DECIMALS = 6
"""To which degrees are rounded: a tenth of a metre."""

ROUNDS = 8
"""Rounds of the way back from the plane; each makes the error a hundred times smaller, or more."""

LINK = "https://www.openstreetmap.org/?mlat={0}&mlon={1}#map=17/{0}/{1}"


def link(degrees: tuple[float, float]) -> str:
    """The address of a public map with a mark at a latitude and longitude."""
    return LINK.format(*degrees)


class Earth(NamedTuple):
    """A plane that touches the earth here; x points east, y north."""

    latitude: float
    longitude: float

    @classmethod
    def around(cls, degrees: ArrayLike) -> Earth:
        """The plane in the middle of places, `f64[n, 2]`, latitude and longitude.

        Raises:
            ValueError: they span more than `WIDEST`; one line.
        """
        latitudes, longitudes = np.moveaxis(np.asarray(degrees, np.float64), -1, 0)
        if np.ptp(longitudes) > 180:  # they lie on both sides of the line where 180 degrees east are 180 west
            longitudes = longitudes % 360
        latitude, longitude = ((each.min() + each.max()) / 2 for each in (latitudes, longitudes))
        earth = cls(float(latitude), float(longitude))
        if (span := float(np.ptp(earth.flat(degrees), axis=0).max())) > WIDEST:
            raise ValueError(f"places span {span:.0f} km, more than {WIDEST:g}; plan parts of it")
        return earth

    def flat(self, degrees: ArrayLike) -> np.ndarray:
        """Kilometres on the plane, `f64[..., 2]`, of latitudes and longitudes `f64[..., 2]`."""
        latitude, longitude = np.moveaxis(np.radians(np.asarray(degrees, np.float64)), -1, 0)
        middle, turn = np.radians(self.latitude), longitude - np.radians(self.longitude)
        curve, curve_middle = (RADIUS / np.sqrt(1 - SQUARE * np.sin(each) ** 2) for each in (latitude, middle))
        out = curve * np.cos(latitude) * np.cos(turn) - curve_middle * np.cos(middle)
        up = (1 - SQUARE) * (curve * np.sin(latitude) - curve_middle * np.sin(middle))
        east = curve * np.cos(latitude) * np.sin(turn)
        return np.stack([east, np.cos(middle) * up - np.sin(middle) * out], axis=-1)

    def degrees(self, place: ArrayLike) -> tuple[float, float]:
        """Latitude and longitude, to a tenth of a metre, of a place in kilometres."""
        found = np.array([self.latitude, self.longitude])
        scale = np.array([110.6, 111.3 * np.cos(np.radians(self.latitude))])
        for _ in range(ROUNDS):
            found = found + (np.asarray(place, np.float64) - self.flat(found))[::-1] / scale
        latitude, longitude = (round(float(number), DECIMALS) for number in found)
        return latitude, longitude if abs(longitude) <= 180 else round((longitude + 180) % 360 - 180, DECIMALS)
