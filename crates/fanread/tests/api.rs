//! What the types promise: where they may go, how long they live, what compiles and what does not.

#[macro_use]
mod maps;

for_each_map! { "api.rs", strings: "strings/api.rs" }

#[test]
fn what_is_refused_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}
