//! What must not compile, and what must: the files of `compile_fail` and `compile_pass`.

#[test]
fn what_is_refused_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}
