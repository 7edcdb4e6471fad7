//! The page.
use crate::bench::machine::Machine;
use crate::report::record::Record;
pub(crate) fn render(_r: &[Record], _m: &Machine) -> String {
    String::new()
}
