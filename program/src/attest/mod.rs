//! Reads the records of machines and builds that may open an epoch.
pub mod announcement;
pub mod certificate;
pub mod der;
pub mod event_log;
pub mod platform;
pub mod precompile;
pub mod quote;
pub mod sgx_extension;
pub mod sha384;
