//! What a command listens on: addresses, or sockets that systemd bound (`LISTEN_FDS`, see sd_listen_fds(3)).
//!
//! **Invariant:** descriptors that systemd passed are duplicated, never owned: a wrong environment closes nobody's file.

use super::error::ServerError;
use narthex_net::{Server, ServerConfig};
use std::{
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
};

const FLAG: &str = "web.systemd-socket";
/// The first of the descriptors that are passed.
const FIRST: i32 = 3;
/// More than any unit has.
const MOST: i32 = 64;

/// Binds the addresses or takes the passed sockets, for a server with this file of web settings.
///
/// # Errors
/// Fails on an address, a socket or a file that can't be used, and if no socket was passed.
pub(super) async fn bind(
    addresses: &[String],
    by_systemd: bool,
    web_config: Option<&Path>,
    config: ServerConfig,
) -> Result<Server, ServerError> {
    let server = match by_systemd {
        true => Server::on_sockets(passed()?, config),
        false => Server::bind(addresses, config).await,
    };
    let server = match web_config {
        Some(path) => server.and_then(|server| server.with_web_config(path)),
        None => server,
    };
    let server = server.map_err(ServerError::Net)?;
    for address in server.local_addrs() {
        tracing::info!(address = address.to_string(), "Listening on");
    }
    Ok(server)
}

fn passed() -> Result<Vec<OwnedFd>, ServerError> {
    let fail = |reason: &str| ServerError::flag(FLAG)(reason);
    let number = |name| std::env::var(name).ok()?.parse::<i32>().ok();
    let is_ours =
        number("LISTEN_PID").and_then(|pid| u32::try_from(pid).ok()) == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|count| is_ours && (1..=MOST).contains(count));
    let count = count.ok_or_else(|| fail("no socket activation file descriptors found"))?;
    let sockets = (FIRST..FIRST + count).map(|number| {
        // SAFETY: nobody closes it meanwhile: descriptors that are inherited stay open for the life of the process.
        let inherited = unsafe { BorrowedFd::borrow_raw(number) };
        inherited
            .try_clone_to_owned()
            .map_err(|error| fail(&format!("descriptor {number}: {error}")))
    });
    sockets.collect()
}
