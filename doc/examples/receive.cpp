// SPDX-License-Identifier: Apache-2.0
/*
 * receive STREAM N: receive N packets in C++ and print the sum of their bytes and what is missing. A class returns the
 * lease of each batch, also if an exception passes. Build it with
 *
 *     c++ -std=c++20 -o receive receive.cpp $(pkg-config --cflags --libs libibvcap)
 */
#include <ibvcap/ibvcap.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

class Batch
{
      public:
	Batch(ibvcap_rx *rx, const struct ibvcap_rx_batch &rows) : rx_(rx), rows_(rows)
	{
	}
	Batch(const Batch &) = delete;
	Batch(Batch &&other) noexcept : rx_(std::exchange(other.rx_, nullptr)), rows_(other.rows_)
	{
	}
	~Batch()
	{
		if (rx_)
			ibvcap_rx_release(rx_, &rows_);
	}

	std::uint32_t size() const
	{
		return rows_.n;
	}
	std::uint64_t gap() const
	{
		return rows_.gap;
	}
	/* Valid as long as the batch. A row without a packet is empty. */
	std::span<const std::uint8_t> operator[](std::uint32_t i) const
	{
		std::size_t length = rows_.meta[i].length;

		return {length ? ibvcap_rx_payload(&rows_, i) : nullptr, length};
	}

      private:
	ibvcap_rx *rx_;
	struct ibvcap_rx_batch rows_;
};

class Receiver
{
      public:
	explicit Receiver(const char *stream)
	{
		ibvcap_rx *rx;

		if (ibvcap_rx_open(nullptr, stream, nullptr, &rx) < 0)
			throw std::runtime_error(ibvcap_error_text());
		rx_.reset(rx);
	}

	std::optional<Batch> acquire(std::uint32_t max, int timeout_ms)
	{
		auto rows = IBVCAP_INIT(struct ibvcap_rx_batch);
		int n = ibvcap_rx_acquire(rx_.get(), &rows, max, 1, timeout_ms);

		if (n < 0)
			throw std::runtime_error(ibvcap_error_text());
		return n ? std::optional<Batch>(std::in_place, rx_.get(), rows) : std::nullopt;
	}

      private:
	struct Close {
		void operator()(ibvcap_rx *rx) const
		{
			ibvcap_rx_close(rx);
		}
	};
	std::unique_ptr<ibvcap_rx, Close> rx_;
};

int main(int argc, char **argv)
try {
	Receiver receiver(argc > 1 ? argv[1] : "capture");
	std::uint64_t left = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10, sum = 0, missing = 0;

	while (left > 0)
		if (auto batch = receiver.acquire(static_cast<std::uint32_t>(left), 1000)) {
			for (std::uint32_t i = 0; i < batch->size(); i++)
				sum = std::accumulate((*batch)[i].begin(), (*batch)[i].end(), sum);
			missing += batch->gap();
			left -= batch->size();
		}
	std::cout << "sum " << sum << ", " << missing << " missing\n";
} catch (const std::exception &error) {
	std::cerr << "receive: " << error.what() << '\n';
	return 1;
}
