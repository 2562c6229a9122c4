//! A fake DNS server, over UDP and TCP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use narthex_discovery::{DnsSdConfig, Options, RecordType, SdConfig};
use narthex_testkit::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use crate::support::run;

/// The server's responses: for any name but `there` this code; for that, an SRV record with this port.
#[derive(Clone, Copy)]
struct Zone {
    code: u8,
    port: u16,
    truncated: bool,
}

fn answer(question: &[u8], zone: Zone, udp: bool) -> Vec<u8> {
    let name = &question[12..];
    let end = 12 + name.iter().position(|b| *b == 0).unwrap() + 5;
    let there = name.starts_with(b"\x05there");
    let cut = udp && zone.truncated;
    let mut out = question[..2].to_vec();
    let code = if there { 0 } else { zone.code };
    out.extend([0x81 | u8::from(cut) << 1, 0x80 | code, 0, 1]);
    out.extend([0, u8::from(there && !cut), 0, 0, 0, 0]);
    out.extend(&question[12..end]);
    if there && !cut {
        out.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 9, 0, 10, 0, 0, 0, 0]);
        out.extend(zone.port.to_be_bytes());
        out.extend(b"\x02h1\0");
    }
    out
}

async fn server(zone: Arc<Mutex<Zone>>) -> SocketAddr {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = udp.local_addr().unwrap();
        // The same port for both, because the configuration has only one.
        let Ok(tcp) = TcpListener::bind(address).await else {
            continue;
        };
        let of_udp = Arc::clone(&zone);
        tokio::spawn(async move {
            let mut buffer = [0; 1500];
            while let Ok((length, peer)) = udp.recv_from(&mut buffer).await {
                let reply = answer(&buffer[..length], *of_udp.lock().unwrap(), true);
                // Send a stray answer to another question first.
                let mut stray = reply.clone();
                stray[0] ^= 0xff;
                let _gone = udp.send_to(&stray, peer).await;
                let _gone = udp.send_to(&reply, peer).await;
            }
        });
        tokio::spawn(async move {
            while let Ok((mut stream, _peer)) = tcp.accept().await {
                let length = stream.read_u16().await.unwrap();
                let mut question = vec![0; usize::from(length)];
                stream.read_exact(&mut question).await.unwrap();
                let reply = answer(&question, *zone.lock().unwrap(), false);
                let length = u16::try_from(reply.len()).unwrap();
                stream.write_u16(length).await.unwrap();
                stream.write_all(&reply).await.unwrap();
            }
        });
        return address;
    }
}

#[tokio::test]
async fn records_become_targets_and_failures_keep_them() {
    let zone = Arc::new(Mutex::new(Zone {
        code: 3,
        port: 9100,
        truncated: false,
    }));
    let address = server(Arc::clone(&zone)).await;
    let dir = TempDir::new("dns");
    // The first server knows nothing and answers so that the next one is queried.
    let resolv_conf = dir.write(
        "resolv.conf",
        format!("search none.example x.example\nnameserver {address}\n"),
    );
    let mut options = Options::default();
    options.resolv_conf = resolv_conf;
    let config = DnsSdConfig {
        names: vec!["there.x".to_owned(), "not.there.example".to_owned()],
        record_type: RecordType::Srv,
        refresh_interval: Duration::from_millis(50),
        ..DnsSdConfig::default()
    };
    let mut running = run(SdConfig::Dns(config), options);
    let groups = running.until(&["h1:9100"]).await;
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].source, "there.x");
    let target = &groups[0].targets[0];
    assert_eq!(target["__meta_dns_name"], "there.x");
    assert_eq!(target["__meta_dns_srv_record_target"], "h1.");
    assert_eq!(target["__meta_dns_srv_record_port"], "9100");
    // Too long for a datagram: queried again over TCP.
    let change = |port, truncated| {
        *zone.lock().unwrap() = Zone {
            code: 2,
            port,
            truncated,
        };
    };
    change(9101, true);
    running.until(&["h1:9101"]).await;
    change(9102, false);
    running.until(&["h1:9102"]).await;
}
