//! Gives the shared library its soname: programs ask for the version whose functions they were compiled for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_linux = std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|os| os == "linux");
    // cargo-c says it by itself.
    if is_linux && std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let version = if major == "0" { format!("0.{minor}") } else { major.to_owned() };
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfanread.so.{version}");
    }
}
