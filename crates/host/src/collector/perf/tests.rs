//! Flags, and counting on this machine where that is permitted.

use super::*;
use narthex_testkit::{TempDir, corpora};

fn selected(perf: &PerfConfig) -> Vec<String> {
    let counters = counters(perf);
    let names = counters.iter().map(|counter| counter.name.to_string());
    names.collect()
}

#[test]
fn all_counters_are_taken_unless_some_are_named() {
    let mut perf = PerfConfig::default();
    assert_eq!(selected(&perf).len(), 30);
    perf.cache.disabled = true;
    perf.hardware.only = vec!["CpuInstr".into(), "PageFault".into()];
    perf.software.only = vec!["nothing".into()];
    assert_eq!(
        selected(&perf),
        [
            "node_perf_instructions_total",
            "node_perf_page_faults_total",
            "node_perf_context_switches_total",
            "node_perf_cpu_migrations_total",
            "node_perf_minor_faults_total",
            "node_perf_major_faults_total",
        ]
    );
}

#[test]
fn lists_of_cpus_have_ranges_and_strides() {
    for (list, expected) in [
        ("3", &[3][..]),
        ("4-6,0,5", &[0, 4, 5, 6]),
        ("1-10:5", &[1, 6]),
    ] {
        assert_eq!(cpu_list(list).expect(list), expected, "{list}");
    }
    for bad in ["", "a", "1-", "1-2-3", "1:0", "1,", "-1"] {
        let error = cpu_list(bad).expect_err(bad).to_string();
        let expected = format!("--collector.perf.cpus: not a list of CPUs: {bad:?}");
        assert_eq!(error, expected);
    }
}

#[test]
fn tracepoints_are_two_names() {
    assert_eq!(
        tracepoint("sched:sched_switch").expect("valid").subsystem,
        "sched"
    );
    for bad in ["sched", "a:b:c", ":b", "a:", "../a:b", "a:b/c"] {
        let error = tracepoint(bad).err().expect(bad).to_string();
        let expected = format!("--collector.perf.tracepoint: not SUBSYSTEM:EVENT: {bad:?}");
        assert_eq!(error, expected);
    }
}

fn collect(perf: &mut Perf, sink: &mut Sink) -> Result<Vec<(String, f64)>, HostError> {
    let mut ctx = Ctx {
        buf: &mut ReadBuf::new(),
        round: 1,
        refresh: false,
        udp_sockets: [None; 2],
    };
    sink.begin();
    perf.collect(&mut ctx, sink)?;
    let frame = sink.finish(0);
    let series = frame.present().iter().map(|at| {
        let id = narthex_model::ColumnId(u32::try_from(at).expect("a slot"));
        (frame.schema().labels(id).to_string(), frame.values()[at])
    });
    Ok(series.collect())
}

/// A host whose list of CPUs and tracepoint are the test's.
fn perf(dir: &TempDir, cpus: &str) -> Perf {
    dir.write("devices/system/cpu/online", "0\n");
    let mut config = HostConfig {
        sysfs: dir.path().to_owned(),
        ..HostConfig::default()
    };
    config.perf.cpus = cpus.to_owned();
    config.perf.tracepoints = vec!["sched:sched_switch".into()];
    config.perf.hardware.disabled = true;
    config.perf.cache.disabled = true;
    Perf::new(&config).expect("valid")
}

#[test]
fn faults_are_counted_where_that_is_permitted() {
    let dir = TempDir::new("host-perf");
    let mut perf = perf(&dir, "");
    let mut sink = Sink::new(narthex_model::LabelSet::empty());
    let error = collect(&mut perf, &mut sink)
        .expect_err("no tracefs")
        .to_string();
    assert_eq!(
        error,
        "perf: there is no tracepoint sched:sched_switch, or tracefs may not be read"
    );
    let id = std::fs::read_to_string("/sys/kernel/tracing/events/sched/sched_switch/id");
    let name = "counters by perf_event_open";
    let Ok(id) = id else {
        return corpora::report_optional(name, 0, 1);
    };
    dir.write("kernel/debug/tracing/events/sched/sched_switch/id", &id);
    let before = match collect(&mut perf, &mut sink) {
        Ok(before) => before,
        Err(error) => {
            assert!(error.to_string().contains("CAP_PERFMON"), "{error}");
            return corpora::report_optional(name, 0, 1);
        }
    };
    let names: Vec<&str> = before.iter().map(|(series, _)| series.as_str()).collect();
    let of_cpu_0 = |name: &str| format!("node_perf_{name}{{cpu=\"0\"}}");
    assert_eq!(
        names,
        [
            of_cpu_0("page_faults_total"),
            of_cpu_0("context_switches_total"),
            of_cpu_0("cpu_migrations_total"),
            of_cpu_0("minor_faults_total"),
            of_cpu_0("major_faults_total"),
            of_cpu_0("sched_sched_switch"),
        ]
    );
    // Nothing is counted backwards, and every fault is a minor or a major one. Counters begin one after the other and are read
    // so, while all processes of the CPU go on: a moment in which they agree is waited for.
    let mut last = before;
    let agree = (0..1000).any(|_| {
        // So much memory comes from the kernel each time; threads bring some of it to CPU 0.
        let threads = [(); 4].map(|()| std::thread::spawn(|| vec![0_u8; 64 << 20][4096] = 1));
        for thread in threads {
            thread.join().expect("ended");
        }
        let now = collect(&mut perf, &mut sink).expect("permitted");
        assert!(last.iter().zip(&now).all(|(a, b)| a.1 <= b.1));
        let grown = |at: usize| now[at].1 - last[at].1;
        let agree = grown(0) > 0.0 && grown(0) == grown(3) + grown(4);
        last = now;
        agree
    });
    assert!(agree, "{last:?}");

    // A CPU that goes offline takes its series along; one that the machine lacks has none.
    dir.write("devices/system/cpu/online", "60000\n");
    assert_eq!(collect(&mut perf, &mut sink).expect("permitted"), []);
    dir.write("devices/system/cpu/online", "0,60000\n");
    assert_eq!(collect(&mut perf, &mut sink).expect("permitted").len(), 6);
    corpora::report(name, 1, 1);
}

#[test]
fn a_refusal_names_what_helps() {
    let error = or_missing(Errno::ACCESS).expect_err("refused").to_string();
    assert!(
        error.contains("CAP_PERFMON") && error.contains("kernel.perf_event_paranoid"),
        "{error}"
    );
    assert!(or_missing(Errno::NOENT).is_ok());
}
