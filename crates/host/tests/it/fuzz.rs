//! Seeded mutation of every parser's input.

use narthex_host::fuzz;
use narthex_testkit::corpora;
use narthex_testkit::mutate::Mutator;

/// Returns the kernel's own texts as a corpus, and the reference tree's if it exists.
fn texts(name: &str) -> Vec<Vec<u8>> {
    let mut texts = vec![std::fs::read(format!("/proc/{name}")).unwrap_or_default()];
    if let Some(dir) = corpora::dir("node-exporter") {
        texts.extend(std::fs::read(dir.join("proc").join(name)));
    }
    texts.iter_mut().for_each(|text| text.truncate(8 << 10));
    texts
}

fn run(seed: u64, corpus: &[Vec<u8>], target: impl Fn(&[u8]) + Clone + Send + 'static) {
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    Mutator::new(seed)
        .max_len(16 << 10)
        .run(&corpus, 3_000, target);
}

#[test]
fn procfs_texts() {
    run(1, &texts("stat"), fuzz::fuzz_stat);
    run(2, &texts("cpuinfo"), fuzz::fuzz_cpuinfo);
    run(3, &texts("diskstats"), fuzz::fuzz_diskstats);
    run(4, &texts("loadavg"), fuzz::fuzz_loadavg);
    run(5, &texts("meminfo"), fuzz::fuzz_meminfo);
    run(6, &texts("vmstat"), fuzz::fuzz_vmstat);
    run(7, &texts("net/dev"), fuzz::fuzz_netdev);
    run(8, &texts("1/mountinfo"), fuzz::fuzz_mountinfo);
}

#[test]
fn procfs_texts_of_the_network() {
    let all = |names: &[&str]| {
        names
            .iter()
            .flat_map(|name| texts(name))
            .collect::<Vec<_>>()
    };
    run(
        30,
        &all(&["net/netstat", "net/snmp", "net/snmp6"]),
        fuzz::fuzz_netstat,
    );
    run(
        31,
        &all(&["net/sockstat", "net/sockstat6"]),
        fuzz::fuzz_sockstat,
    );
    run(
        32,
        &all(&["net/softnet_stat", "schedstat"]),
        fuzz::fuzz_per_cpu,
    );
    run(33, &texts("net/stat/nf_conntrack"), fuzz::fuzz_conntrack);
    run(
        34,
        &all(&["net/udp", "net/udp6", "net/arp"]),
        fuzz::fuzz_sockets,
    );
    let ipvs = "TCP  C0A80016:0CEA wlc\n  -> C0A85216:0CEA Tunnel 100 248 2\nFWM 1 wlc\n  \
                -> [2620:0000:0000:0000:0000:0000:0000:0001]:0050 Route 1 0 0\n";
    let mut corpus = all(&["net/ip_vs", "net/ip_vs_stats"]);
    corpus.push(ipvs.as_bytes().to_vec());
    run(35, &corpus, fuzz::fuzz_ipvs);
}

#[test]
fn procfs_texts_of_the_machine() {
    let all = |names: &[&str]| {
        names
            .iter()
            .flat_map(|name| texts(name))
            .collect::<Vec<_>>()
    };
    run(
        40,
        &all(&["pressure/io", "pressure/cpu"]),
        fuzz::fuzz_pressure,
    );
    run(41, &all(&["sys/fs/file-nr"]), fuzz::fuzz_numbers);
    let raid = "md0 : active raid6 sda1[8] sdh1[7](F)\n 58 blocks [8/7] [UUU_]\n bitmap: 0/1\n \
                recovery = 8.5% (16/195) finish=17min\n\n";
    let mut corpus = texts("mdstat");
    corpus.push(raid.as_bytes().to_vec());
    run(42, &corpus, fuzz::fuzz_mdstat);
    let zfs = b"6 1 0x01\nname type data\nhits 4 8\nneed 3 -5\ndataset_name 7 pool/a b\n".to_vec();
    let io = b"12 3 0x00\nnread nwritten reads\n1 2 3\n".to_vec();
    run(43, &[zfs, io], fuzz::fuzz_zfs);
    let settings =
        b"NAME=\"A \\\"b\\\"\"\nID=x # c\nVERSION_ID=1.2.3\nSELINUX=enforcing\n".to_vec();
    run(44, &[settings], fuzz::fuzz_settings);
    let attributes = [
        "4: ACTIVE",
        "100 Gb/sec (4X EDR)",
        "1.3M",
        "-125000",
        "0x1003",
        "rw 1 2",
        "commits 7",
        "commits 28.2k",
        "read:\nuser : 5\nwrite:\nuser:6\n",
    ];
    let attributes = attributes.map(|text| text.as_bytes().to_vec());
    run(45, &attributes, fuzz::fuzz_attributes);
}

#[test]
fn procfs_tables() {
    let names = [
        "buddyinfo",
        "cgroups",
        "drbd",
        "interrupts",
        "slabinfo",
        "softirqs",
        "swaps",
        "zoneinfo",
    ];
    let tables: Vec<_> = names.iter().flat_map(|name| texts(name)).collect();
    run(50, &tables, fuzz::fuzz_tables);
    let numa = b"Node 0 MemFree:  5 kB\nNode 0 Active(anon): 7 kB\n".to_vec();
    let mut nodes = vec![numa, b"numa_hit 5\nnuma_miss 7\n".to_vec()];
    nodes.extend(
        [
            "1/stat",
            "net/stat/arp_cache",
            "self/mountstats",
            "10/mountstats",
        ]
        .iter()
        .flat_map(|name| texts(name)),
    );
    run(51, &nodes, fuzz::fuzz_nodes);
}

#[test]
fn sysfs_udev_and_zone_files() {
    run(10, &[b"0-3,7,9-11\n".to_vec()], fuzz::fuzz_ranges);
    let udev =
        b"S:disk/by-id/x\nE:ID_SERIAL=a\nE:ID_FS_TYPE=ext4\nE:ID_ATA=1\nE:ID_ATA_WRITE_CACHE=1\n";
    run(11, &[udev.to_vec()], fuzz::fuzz_udev);
    let zones = ["Europe/Berlin", "America/New_York", "UTC"];
    let zones: Vec<Vec<u8>> = zones
        .iter()
        .filter_map(|name| std::fs::read(format!("/usr/share/zoneinfo/{name}")).ok())
        .collect();
    assert!(!zones.is_empty(), "apt-get install -y tzdata");
    run(12, &zones, fuzz::fuzz_timezone);
}

/// A message of type `kind` with sequence 1.
fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(u32::try_from(16 + body.len()).expect("small").to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend([0; 2]);
    message.extend(1_u32.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = Vec::new();
    attribute.extend(u16::try_from(4 + value.len()).expect("small").to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

#[test]
fn netlink_datagrams() {
    let link = [
        vec![0; 16],
        attribute(3, b"eth0\0"),
        attribute(20, b"up\0"),
        attribute(23, &[1; 200]),
    ]
    .concat();
    let stats = [vec![0; 12], attribute(1, &[1; 200])].concat();
    let address = [
        vec![0; 8],
        attribute(1, &[127, 0, 0, 1]),
        attribute(2, &[0; 16]),
    ]
    .concat();
    let properties = [
        vec![0; 16],
        attribute(3, b"eth0\0"),
        attribute(1, &[0, 1, 2, 3, 4, 5]),
        attribute(4, &1500_u32.to_ne_bytes()),
        attribute(16, &[6]),
        attribute(33, &[1]),
        attribute(35, &[1, 0, 0, 0]),
    ]
    .concat();
    let neighbour = [
        &[2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1][..],
        &attribute(1, &[10, 0, 0, 1]),
    ]
    .concat();
    let way = [
        &16_u16.to_ne_bytes()[..],
        &[0, 1, 2, 0, 0, 0],
        &attribute(5, &[10, 0, 0, 1]),
    ]
    .concat();
    let route = [
        &[2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..],
        &attribute(1, &[10, 0, 0, 0]),
        &attribute(9, &way),
    ]
    .concat();
    let stats2 = [attribute(1, &[1; 12]), attribute(3, &[1; 20])].concat();
    let qdisc = [vec![0; 20], attribute(1, b"fq\0"), attribute(7, &stats2)].concat();
    let done = message(3, &[0; 4]);
    let corpus = [
        [message(16, &link), message(16, &link), done.clone()].concat(),
        [message(92, &stats), done.clone()].concat(),
        [
            message(16, &properties),
            message(28, &neighbour),
            done.clone(),
        ]
        .concat(),
        [message(20, &address), done.clone()].concat(),
        [message(24, &route), message(36, &qdisc), done].concat(),
        message(2, &(-1_i32).to_ne_bytes()),
    ];
    run(20, &corpus, fuzz::fuzz_netlink);
}
