//! Points on a map, as 64-bit cell numbers: the shape of OpenStreetMap's.
//!
//! Cities with heavy-tailed sizes; inside a city most points lie on short streets. Latitude and
//! longitude are 32-bit fractions whose bits alternate, so near points share a prefix.

use std::f64::consts::TAU;

use crate::rng::Rng;

const CITIES: usize = 4000;
/// The exponent of the cities' sizes, and the largest size: one city must not hold the world.
const SIZE_EXPONENT: f64 = -1.0 / 1.15;
const LARGEST: f64 = 3000.0;
/// Radius of a city of size 1, length of a street, spread across a street: shares of the globe.
const CITY_RADIUS: f64 = 1.5e-5;
const STREET_LENGTH: f64 = 2e-5;
const STREET_WIDTH: f64 = 1e-8;

#[derive(Debug)]
struct City {
    x: f64,
    y: f64,
    radius: f64,
    streets: u64,
    seed: u64,
}

/// The cities points are drawn around.
#[derive(Debug)]
pub(crate) struct Cities {
    cities: Vec<City>,
    /// The summed sizes up to and with each city.
    sizes: Vec<f64>,
}

impl Cities {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut total = 0.0;
        let (mut cities, mut sizes) = (Vec::new(), Vec::new());
        for _ in 0..CITIES {
            let size = (1.0 - rng.unit()).powf(SIZE_EXPONENT).min(LARGEST);
            total += size;
            sizes.push(total);
            cities.push(City {
                x: rng.unit(),
                y: 0.1 + 0.8 * rng.unit(),
                radius: CITY_RADIUS * size.sqrt() * (0.5 * rng.gauss()).exp(),
                streets: (size * 400.0) as u64 + 50,
                seed: rng.bits(),
            });
        }
        Self { cities, sizes }
    }

    /// Draws the cell of one point.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        let total = self.sizes.last().expect("there are cities");
        let at = rng.unit() * total;
        let city = &self.cities[self.sizes.partition_point(|&sum| sum < at).min(CITIES - 1)];
        let (x, y) = if rng.below(10) < 8 {
            // A street is a function of its number: drawing it twice gives the same line.
            let mut street = Rng::new(city.seed.wrapping_add(rng.below(city.streets)));
            let x = city.x + city.radius * street.gauss();
            let y = city.y + city.radius * street.gauss();
            let angle = TAU * street.unit();
            let along = rng.unit() * STREET_LENGTH * street.unit();
            (
                x + along * angle.cos() + STREET_WIDTH * rng.gauss(),
                y + along * angle.sin() + STREET_WIDTH * rng.gauss(),
            )
        } else {
            let far = city.radius * (1.0 - rng.unit()).powf(-0.5);
            (city.x + far * rng.gauss(), city.y + far * rng.gauss())
        };
        spread_bits(fraction(x)) << 1 | spread_bits(fraction(y))
    }
}

fn fraction(v: f64) -> u32 {
    ((v - v.floor()) * f64::from(u32::MAX)) as u32
}

/// Puts a zero bit before every bit.
fn spread_bits(x: u32) -> u64 {
    let mut v = u64::from(x);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        v = (v | v << shift) & mask;
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_spread_to_even_places() {
        assert_eq!(spread_bits(0b1011), 0b100_0101);
        assert_eq!(spread_bits(u32::MAX), 0x5555_5555_5555_5555);
    }
}
