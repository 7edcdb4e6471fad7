//! The maps of this library behind the trait of a measured map: a module for each, named as in the library.

use crate::maps::for_our_maps;

/// For how many answers a batched lookup makes room at once. Room for many is not made for few: each place is written before.
const FEW: usize = 16;
const MANY: usize = 64;

/// Puts ordered maps behind the traits.
macro_rules! subjects {
    (strings { $($strings:tt)* } numbers { $($numbers:tt)* }) => {
        subjects! { on $($strings)* }
        subjects! { on_numbers $($numbers)* }
    };
    (on $($name:literal: $module:ident, $map:ident;)*) => {
        $(
            subjects! {
                $name, $module, $map,
                longest: fanread::$module::MAX_KEY_BYTES,
                given: |key, &[u8]| key,
                room: (),
                all_given: |keys, _room| keys,
                found: |bytes| &bytes,
            }
        )*
    };
    // A number is given and shown as its eight bytes, the most significant one first.
    (on_numbers $($name:literal: $module:ident, $map:ident;)*) => {
        $(
            subjects! {
                $name, $module, $map,
                longest: 8,
                given: |key, u64| u64::from_be_bytes(key.try_into().expect("keys of eight bytes")),
                room: [0; MOST],
                all_given: |keys, room| {
                    room.iter_mut().zip(keys).for_each(|(number, key)| *number = given(key));
                    &room[..keys.len()]
                },
                found: |number| &number.to_be_bytes(),
            }
        )*
    };
    (
        $name:literal, $module:ident, $map:ident,
        longest: $longest:expr,
        given: |$key:ident, $given:ty| $from_bytes:expr,
        room: $empty:expr,
        all_given: |$keys:ident, $room:ident| $all_from_bytes:expr,
        found: |$found:ident| $bytes:expr $(,)?
    ) => {
        pub(crate) mod $module {
            use core::ops::Bound::Included;

            use fanread::Options;
            use workload::subject::{Handle, Subject};

            use super::{FEW, MANY};

            #[doc = concat!("A [`fanread::", stringify!($map), "`] with numbers as values, which has room for all keys from the beginning or grows.")]
            pub(crate) struct Measured<const WITH_ROOM: bool = false>(fanread::$map<u64>);

            #[doc = concat!("A pinned [`fanread::", stringify!($map), "`].")]
            pub(crate) struct Pinned<'a>(fanread::$module::Pinned<'a, u64>);

            impl<const WITH_ROOM: bool> Subject for Measured<WITH_ROOM> {
                const NAME: &'static str =
                    if WITH_ROOM { concat!($name, "-with-room") } else { $name };
                const BATCHES: bool = true;
                const MAX_KEY_BYTES: usize = $longest;

                type Owned<'a> = Pinned<'a>;
                type Shared<'a> = Pinned<'a>;

                fn new() -> Self {
                    Self(fanread::$map::new())
                }

                fn with_room(keys: usize) -> Self {
                    let options = Options::new();
                    let options = if WITH_ROOM { options.capacity(keys) } else { options };
                    Self(fanread::$map::with_options(options))
                }

                fn own(&mut self) -> Pinned<'_> {
                    self.share()
                }

                fn share(&self) -> Pinned<'_> {
                    Pinned(self.0.pin())
                }
            }

            /// Returns a key as the map takes it.
            #[inline]
            fn given($key: &[u8]) -> $given {
                $from_bytes
            }

            impl Pinned<'_> {
                /// Looks up at most `MOST` keys, for whose answers there is room.
                #[inline]
                fn get_some<const MOST: usize>(&self, $keys: &[&[u8]], out: &mut [Option<u64>]) {
                    #[allow(unused_mut, reason = "not every kind of keys needs the room")]
                    let mut $room = $empty;
                    let mut found = [const { None }; MOST];
                    let found = &mut found[..$keys.len()];
                    self.0.get_batch($all_from_bytes, found);
                    for (out, found) in out.iter_mut().zip(found) {
                        *out = found.as_deref().copied();
                    }
                }
            }

            impl Handle for Pinned<'_> {
                #[inline]
                fn repin(&mut self) {
                    self.0.repin();
                }

                #[inline]
                fn insert(&mut self, key: &[u8], value: u64) -> bool {
                    self.0.insert(given(key), value).is_none()
                }

                #[inline]
                fn update(&mut self, key: &[u8], value: u64) -> bool {
                    self.0.insert(given(key), value).is_some()
                }

                #[inline]
                fn get(&mut self, key: &[u8]) -> Option<u64> {
                    self.0.get(given(key)).map(|value| *value)
                }

                #[inline]
                fn remove(&mut self, key: &[u8]) -> bool {
                    self.0.remove(given(key)).is_some()
                }

                #[inline]
                fn get_batch(&mut self, keys: &[&[u8]], out: &mut [Option<u64>]) {
                    if keys.len() <= FEW {
                        self.get_some::<FEW>(keys, out);
                    } else {
                        keys.chunks(MANY)
                            .zip(out.chunks_mut(MANY))
                            .for_each(|(keys, out)| self.get_some::<MANY>(keys, out));
                    }
                }

                #[inline]
                fn lower_bound(&mut self, from: &[u8], mut visit: impl FnMut(&[u8], u64)) {
                    if let Some(($found, value)) = self.0.lower_bound(Included(given(from))) {
                        visit($bytes, *value);
                    }
                }

                #[inline]
                fn scan(&mut self, from: &[u8], count: usize, mut visit: impl FnMut(&[u8], u64)) {
                    for ($found, value) in self.0.range(given(from)..).take(count) {
                        visit($bytes, *value);
                    }
                }
            }
        }
    };
}

for_our_maps! { subjects }
