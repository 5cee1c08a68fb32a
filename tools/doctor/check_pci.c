// SPDX-License-Identifier: Apache-2.0
/* PCI Express and the IOMMU, through which the device reads and writes memory. */
#include "tools/doctor/checks.h"

#include <stdio.h>
#include <string.h>

#define READ_REQUEST_MIN_BYTES 512

static void check_pci_link(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!pci->width || !pci->width_max)
		return;
	finding = finding_add(findings, "pcie_link", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "x%u, %s", pci->width, pci->speed);
	if (pci->width >= pci->width_max && strcmp(pci->speed, pci->speed_max) == 0)
		return;
	finding->level = FINDING_WARNING;
	finding_write(finding->wanted, "the maximum of the card: x%u, %s", pci->width_max, pci->speed_max);
	finding_write(finding->why, "packets wait in the card for the bus; it drops them when its buffer is full");
	finding_write(finding->fix,
	              "lspci -s %s -vv | grep -E 'LnkCap|LnkSta'   # then use another slot, or change its setting in "
	              "the BIOS",
	              pci->address);
	finding->fix_survives_reboot = finding->fix_is_host = true;
}

static void check_pci_read_request(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!pci->read_request_bytes)
		return;
	finding = finding_add(findings, "pcie_read_request", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "%u bytes a read request at most", pci->read_request_bytes);
	if (pci->read_request_bytes >= READ_REQUEST_MIN_BYTES)
		return;
	finding->level = FINDING_WARNING;
	finding_write(finding->wanted, "at least %u", READ_REQUEST_MIN_BYTES);
	finding_write(finding->why, "the card reads payloads and descriptors of free rows in many small requests");
	/* 5 in bits 12 to 14 of Device Control stands for 4096 bytes. */
	finding_write(finding->fix, "setpci -s %s CAP_EXP+8.w=5000:7000", pci->address);
	finding->fix_is_host = true;
}

/* An IOMMU costs time only if it translates addresses: type DMA or DMA-FQ, not identity. */
static void check_pci_iommu(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_pci *pci = &device->pci;
	struct finding *finding;

	if (!*pci->address)
		return;
	finding = finding_add(findings, "iommu", "%s at PCI %s", device->name, pci->address);
	finding_write(finding->found, "%s", *pci->iommu ? pci->iommu : "none");
	if (strncmp(pci->iommu, "DMA", 3) != 0)
		return;
	finding_fail(finding, FINDING_WARNING, "identity",
	             "the IOMMU translates each address that the card writes to, and caches only a few of them");
	finding_write(finding->fix,
	              "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && update-grub   # then reboot");
	finding->fix_survives_reboot = finding->fix_is_host = true;
}

void check_pci(const struct doctor_facts *facts, struct findings *findings)
{
	for (unsigned int i = 0; i < facts->n_devices; i++) {
		check_pci_link(&facts->devices[i], findings);
		check_pci_read_request(&facts->devices[i], findings);
		check_pci_iommu(&facts->devices[i], findings);
	}
}
