//! The label names of these metrics, which no common label may have.
//!
//! Invariant: names in text files are not among them.

const OWN_LABELS: &str = "\
    __name__ address adminstate algorithm ana_state backing_device bios_date bios_release bios_vendor bios_version \
    block_group_type board_asset_tag board_id board_name board_serial board_vendor board_version branch broadcast \
    bssid bug build_id bus bus_info cache_device cachesize capacity_level card channel charge_type chassis_asset_tag \
    chassis_serial chassis_vendor chassis_version chip chip_name class class_id class_name clocksource cntlid \
    codename collector controller core cpu csrow data_type dataset dest dev_loss_tmo device device_error device_id \
    device_name devices dimm_label domainname driver duplex error error_type expansion_rom_version export \
    fabric_name family fc_host file firmware_revision firmware_version flag fstype function goarch goos governor \
    goversion group gw hca_type health id id_like identity ifalias image_id image_version index info iopolicy ip \
    kind label local_address local_mark local_port lv_layer lv_name mac_address machine major manufacturer master \
    memory_vendor method microcode minor mitigation mode model model_name mountaddr mountpoint name netmask node \
    nodename nqn nsid operation operstate options package parent_bus parent_device parent_function parent_segment \
    path port port_id port_name port_state port_type power_performance_level power_supply pretimeout_governor \
    pretty_name priority product_family product_name product_serial product_sku product_uuid product_version proto \
    protocol queue rapl_zone release remote remote_address remote_port revision rotational scope seat segment sensor \
    serial serial_number service size slab speed src ssid state status stepping subsys_name subsystem \
    subsystem_device_id subsystem_device_name subsystem_vendor_id subsystem_vendor_name supervisor supported_classes \
    supported_speeds swap_type symbolic_name sysfs_name sysname system_vendor tags technology thread_state time_zone \
    transport type unique_id usage usb_type uuid value variant variant_id vector vendor vendor_id vendor_name \
    version version_codename version_id vg_name virtualization_type weight wwn zone zpool";

/// Reports whether some of these metrics have a label of this name.
pub(crate) fn is_own(label: &str) -> bool {
    OWN_LABELS.split(' ').any(|own| own == label)
}
