//! Every map that can be measured, by name: one line a map; and those of shared objects, by the name of their file.

use std::io;

use workload::subject::Subject;

use crate::bench::worker::{Context, measure};
use crate::bench::{cceh, ours, plugin, skip_list, table};
use crate::maps::for_our_maps;

/// What measures a map: [`measure`] compiled for it.
pub(crate) type Run = fn(&mut Context<'_>) -> io::Result<()>;

/// A map that can be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Whether it is one of this library.
    pub(crate) ours: bool,
    /// Whether it is measured when no `--index` is given.
    pub(crate) default: bool,
    /// Whether the settings of `store bench` are its.
    pub(crate) settings: bool,
    /// Runs it on sets whose keys are all eight-byte numbers.
    numbers: Option<Run>,
    /// Runs it on any keys.
    strings: Option<Run>,
}

impl Entry {
    /// Returns what runs the map on a set of keys, if it can hold them.
    pub(crate) fn runner(&self, keys_are_numbers: bool) -> Option<Run> {
        if keys_are_numbers { self.numbers.or(self.strings) } else { self.strings }
    }

    #[cfg_attr(not(feature = "rivals"), expect(dead_code, reason = "only rivals are not ours"))]
    const fn rival(self) -> Self {
        Self { ours: false, ..self }
    }

    const fn with_settings(self) -> Self {
        Self { settings: true, ..self }
    }

    const fn on_request(self) -> Self {
        Self { default: false, ..self }
    }
}

/// A map with byte-string keys.
const fn strings<S: Subject>() -> Entry {
    let run: Run = measure::<S>;
    Entry {
        name: S::NAME,
        ours: true,
        default: true,
        settings: false,
        numbers: None,
        strings: Some(run),
    }
}

/// A map with numbers as keys.
const fn numbers<S: Subject>() -> Entry {
    Entry { numbers: Some(measure::<S>), strings: None, ..strings::<S>() }
}

/// A map that comes in both forms.
const fn both<N: Subject, S: Subject>() -> Entry {
    Entry { numbers: Some(measure::<N>), ..strings::<S>() }
}

macro_rules! entries {
    (
        strings { $($name:literal: $module:ident, $map:ident;)* }
        numbers { $($number_name:literal: $number_module:ident, $number_map:ident;)* }
    ) => {
        /// All maps, ours first.
        pub(crate) const ENTRIES: &[Entry] = &[
            $(strings::<ours::$module::Measured<false>>(),)*
            $(numbers::<ours::$number_module::Measured<false>>(),)*
            strings::<ours::ordered_map::Measured<true>>().on_request(),
            numbers::<ours::u64_map::Measured<true>>().on_request(),
            numbers::<ours::mlp_index::Measured<true>>().on_request(),
            strings::<table::Measured>(),
            numbers::<cceh::Measured<{ cceh::MEMORY }>>().with_settings(),
            numbers::<cceh::Measured<{ cceh::COPYING }>>().with_settings().on_request(),
            numbers::<cceh::Measured<{ cceh::FILE }>>().with_settings().on_request(),
            numbers::<cceh::Measured<{ cceh::CHECKPOINTS }>>().with_settings().on_request(),
            both::<skip_list::Measured<u64, false>, skip_list::Measured<Box<[u8]>, false>>(),
            both::<skip_list::Measured<u64, true>, skip_list::Measured<Box<[u8]>, true>>().on_request(),
            #[cfg(feature = "rivals")]
            both::<rivals::BTreeMap<rivals::Word>, rivals::BTreeMap<rivals::Text>>().rival(),
            #[cfg(feature = "rivals")]
            both::<rivals::SkipMap<rivals::Word>, rivals::SkipMap<rivals::Text>>().rival(),
            #[cfg(feature = "rivals")]
            both::<rivals::TreeIndex<rivals::Word>, rivals::TreeIndex<rivals::Text>>().rival(),
            #[cfg(feature = "rivals")]
            strings::<rivals::Masstree>().rival(),
            #[cfg(feature = "rivals")]
            numbers::<rivals::Congee>().rival().on_request(),
            #[cfg(feature = "rivals")]
            both::<rivals::IndexSet<rivals::Word>, rivals::IndexSet<rivals::Text>>().rival().on_request(),
            #[cfg(feature = "rivals")]
            both::<rivals::HashMap<rivals::Word>, rivals::HashMap<rivals::Text>>().rival(),
            #[cfg(feature = "rivals")]
            numbers::<rivals::LinearProbing>().rival().on_request(),
            #[cfg(feature = "rivals")]
            numbers::<rivals::Eytzinger>().rival().on_request(),
        ];
    };
}

for_our_maps! { entries }

/// Returns the map with this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    if plugin::is_file(name) {
        // A few of them for as long as the program runs.
        let name: &'static str = name.to_owned().leak();
        return Some(Box::leak(Box::new(Entry {
            name,
            ours: false,
            default: false,
            settings: false,
            numbers: None,
            strings: Some(plugin::measure),
        })));
    }
    // The other way in which it is written elsewhere.
    let name = name.replace("skip-list", "skiplist");
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// Returns the names of all maps, and a text behind them, for the help.
pub(crate) fn names_and(text: &str) -> String {
    let names = |default: bool| {
        let some = ENTRIES.iter().filter(|entry| entry.default == default);
        some.map(|entry| entry.name).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Maps that are measured without --index: {}.\nOnly by name: {}.\n\n{text}",
        names(true),
        names(false)
    )
}
