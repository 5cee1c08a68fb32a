// SPDX-License-Identifier: Apache-2.0
/* Computes the invariant CRC, eight bytes at a time. */
#include "icrc.h"

#include <endian.h>
#include <string.h>

#define POLYNOMIAL     0xedb88320u /* of Ethernet, bits reflected */
#define LRH_BYTES      8u
#define MAX_L3_BYTES   48u
#define BTH_BYTES      12u
#define BTH_RESERVED   4u
#define IPV6_UDP_BYTES 48u

static uint32_t icrc_table[8][256];

void icrc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		icrc_table[0][i] = crc;
	}
	for (unsigned int n = 1; n < 8; n++)
		for (uint32_t i = 0; i < 256; i++)
			icrc_table[n][i] = icrc_table[n - 1][i] >> 8 ^ icrc_table[0][icrc_table[n - 1][i] & 0xff];
}

static uint32_t icrc_add(uint32_t crc, const uint8_t *p, size_t bytes)
{
	for (; bytes >= 8; bytes -= 8, p += 8) {
		uint32_t low, high;

		memcpy(&low, p, 4);
		memcpy(&high, p + 4, 4);
		low = le32toh(low) ^ crc;
		high = le32toh(high);
		crc = icrc_table[7][low & 0xff] ^ icrc_table[6][low >> 8 & 0xff] ^ icrc_table[5][low >> 16 & 0xff] ^
		      icrc_table[4][low >> 24] ^ icrc_table[3][high & 0xff] ^ icrc_table[2][high >> 8 & 0xff] ^
		      icrc_table[1][high >> 16 & 0xff] ^ icrc_table[0][high >> 24];
	}
	for (; bytes; bytes--)
		crc = crc >> 8 ^ icrc_table[0][(crc ^ *p++) & 0xff];
	return crc;
}

/* Ones stand for the local route header, which RoCE does not have, and for the fields that may change. */
uint32_t icrc_of(const uint8_t *l3, uint32_t l3_bytes, bool ipv4, const uint8_t *bth, uint32_t bytes)
{
	uint8_t head[LRH_BYTES + MAX_L3_BYTES + BTH_BYTES], *h = head + LRH_BYTES;
	uint32_t crc;

	memset(head, 0xff, LRH_BYTES);
	memcpy(h, l3, l3_bytes);
	if (ipv4) {
		h[1] = 0xff; /* type of service */
		h[8] = 0xff; /* time to live */
		memset(h + 10, 0xff, 2);
	} else {
		h[0] |= 0x0f; /* traffic class and flow label */
		memset(h + 1, 0xff, 3);
		h[7] = 0xff; /* hop limit */
	}
	if (ipv4 || l3_bytes == IPV6_UDP_BYTES)
		memset(h + l3_bytes - 2, 0xff, 2); /* UDP's checksum */
	memcpy(h + l3_bytes, bth, BTH_BYTES);
	h[l3_bytes + BTH_RESERVED] = 0xff;
	crc = icrc_add(UINT32_MAX, head, LRH_BYTES + l3_bytes + BTH_BYTES);
	return htole32(~icrc_add(crc, bth + BTH_BYTES, bytes - BTH_BYTES));
}
