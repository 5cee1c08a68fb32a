// SPDX-License-Identifier: Apache-2.0
/*
 * spectrometer STREAM OUT.npy [FRAMES]: power spectra of VDIF frames, computed on a GPU: the levels in dB that
 * ../spectrometer.py draws. STREAM has one VDIF frame a packet (VDIF 1.1.1, real samples; of several channels, the
 * first).
 *
 *   nvcc -O2 -o spectrometer spectrometer.cu $(pkg-config --cflags --libs libibvcap-cuda) -lcufft
 */
#include <ibvcap/cuda.h>

#include <cuda_runtime.h>
#include <cufft.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static const uint32_t kLines = 512; // of a spectrum
static const uint32_t kSamples = 2 * kLines;
static const uint32_t kRows = 128; // of a batch, at most

static void check(bool good, const char *what, const char *why)
{
	if (!good) {
		fprintf(stderr, "spectrometer: %s: %s\n", what, why);
		exit(1);
	}
}

static void check_cuda(cudaError_t error, const char *what)
{
	check(error == cudaSuccess, what, cudaGetErrorString(error));
}

static void check_fft(cufftResult result, const char *what)
{
	check(result == CUFFT_SUCCESS, what, ("cuFFT says " + std::to_string(result)).c_str());
}

/* What the header of a frame says (VDIF 1.1.1, section 5). */
struct Frame {
	uint32_t number; // within its second
	uint32_t bits;   // of a sample
	uint32_t channels;
	uint32_t header_bytes;
};

static Frame read_frame(const uint8_t *row)
{
	uint32_t words[4];

	memcpy(words, row, sizeof(words)); // little-endian, as the CPU
	return {words[1] & 0xffffff, (words[3] >> 26 & 31) + 1, 1u << (words[2] >> 24 & 31),
	        words[0] >> 30 & 1 ? 16u : 32u};
}

/* Samples of a batch as floats, with a Hann window. blocks: of kSamples, in each row. */
__global__ void unpack(const uint8_t *rows, uint32_t n, uint32_t stride, Frame frame, uint32_t blocks, float *samples)
{
	const uint32_t a_word = (32 + frame.bits - 1) / frame.bits;
	const uint32_t mask = frame.bits < 32 ? (1u << frame.bits) - 1 : ~0u;
	const uint64_t all = (uint64_t)n * blocks * kSamples;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all;
	     i += (uint64_t)gridDim.x * blockDim.x) {
		const uint32_t at = i % ((uint64_t)blocks * kSamples) * frame.channels;
		const uint8_t *bytes =
			rows + i / ((uint64_t)blocks * kSamples) * stride + frame.header_bytes + at / a_word * 4;
		const uint32_t word = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
		const float sample = (float)(word >> at % a_word * frame.bits & mask) - (exp2f(frame.bits) - 1) / 2;

		samples[i] = sample * (0.5f - 0.5f * cospif(2.0f * (i % kSamples) / (kSamples - 1)));
	}
}

/* Mean power of each line over the blocks of a row, without the first line. */
__global__ void mean_power(const cufftComplex *lines, uint32_t n, uint32_t blocks, float *mean)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n * kLines; i += gridDim.x * blockDim.x) {
		const cufftComplex *row = lines + (uint64_t)(i / kLines) * blocks * (kLines + 1) + i % kLines + 1;
		float sum = 0;

		for (uint32_t k = 0; k < blocks; k++, row += kLines + 1)
			sum += row->x * row->x + row->y * row->y;
		mean[i] = sum / blocks;
	}
}

/* Rows become spectra. Its stream is where the work of a batch is queued. */
class Spectrometer
{
      public:
	explicit Spectrometer(size_t frames)
	{
		check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
		check_cuda(cudaMalloc(&mean_, (frames + kRows) * kLines * sizeof(*mean_)), "memory for the spectra");
	}

	void add(const ibvcap_cuda_batch &batch, const Frame &frame, uint32_t length)
	{
		const uint32_t a_word = (32 + frame.bits - 1) / frame.bits;
		const uint32_t blocks = (length - frame.header_bytes) / 4 * a_word / frame.channels / kSamples;

		check(blocks > 0, "frames", "less than 1024 samples");
		if (blocks != blocks_)
			plan(blocks);
		unpack<<<512, 256, 0, stream_>>>((const uint8_t *)batch.payload, batch.rows.n, batch.rows.stride, frame,
		                                 blocks, samples_);
		check_fft(cufftExecR2C(fft_, samples_, lines_), "the transform");
		mean_power<<<128, 256, 0, stream_>>>(lines_, batch.rows.n, blocks, mean_ + n_ * kLines);
		check_cuda(cudaGetLastError(), "a kernel");
		n_ += batch.rows.n;
	}

	std::vector<float> spectra() const
	{
		std::vector<float> found(n_ * kLines);

		check_cuda(cudaStreamSynchronize(stream_), "the work on the device");
		check_cuda(cudaMemcpy(found.data(), mean_, found.size() * sizeof(float), cudaMemcpyDeviceToHost),
		           "the spectra");
		return found;
	}

	cudaStream_t stream() const
	{
		return stream_;
	}

      private:
	void plan(uint32_t blocks)
	{
		int samples = kSamples;

		if (blocks_) {
			check_cuda(cudaStreamSynchronize(stream_), "the work on the device");
			cudaFree(samples_);
			cudaFree(lines_);
			cufftDestroy(fft_);
		}
		blocks_ = blocks;
		check_cuda(cudaMalloc(&samples_, (size_t)kRows * blocks * kSamples * sizeof(*samples_)), "memory");
		check_cuda(cudaMalloc(&lines_, (size_t)kRows * blocks * (kLines + 1) * sizeof(*lines_)), "memory");
		check_cuda(cudaMemset(samples_, 0, (size_t)kRows * blocks * kSamples * sizeof(*samples_)), "memory");
		check_fft(cufftPlanMany(&fft_, 1, &samples, nullptr, 1, kSamples, nullptr, 1, kLines + 1, CUFFT_R2C,
		                        kRows * blocks),
		          "the plan");
		check_fft(cufftSetStream(fft_, stream_), "the plan's stream");
	}

	cudaStream_t stream_;
	cufftHandle fft_;
	float *samples_;
	cufftComplex *lines_;
	float *mean_;
	uint32_t blocks_ = 0;
	size_t n_ = 0;
};

/* Levels in dB, of shape (frames, kLines); NaN where a frame is missing. */
static std::vector<float> levels_of(const std::vector<bool> &there, const std::vector<float> &spectra)
{
	std::vector<float> levels;
	size_t at = 0;

	for (bool is_there : there)
		for (uint32_t i = 0; i < kLines; i++)
			levels.push_back(is_there ? 10 * log10f(spectra[at++] + 1e-9f) : NAN);
	return levels;
}

static void write_npy(const char *path, const std::vector<float> &levels, size_t frames)
{
	char header[118];
	FILE *file = fopen(path, "wb");

	check(file, path, strerror(errno));
	memset(header, ' ', sizeof(header));
	header[snprintf(header, sizeof(header), "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %u), }",
	                frames, kLines)] = ' ';
	header[sizeof(header) - 1] = '\n';
	fwrite("\x93NUMPY\x01\0\x76\0", 1, 10, file);
	fwrite(header, 1, sizeof(header), file);
	fwrite(levels.data(), sizeof(float), levels.size(), file);
	check(fclose(file) == 0, path, strerror(errno));
}

static uint32_t peak_of(const std::vector<float> &levels, size_t frames)
{
	std::vector<double> sums(kLines);
	uint32_t peak = 0;

	for (size_t i = 0; i < frames * kLines; i++)
		sums[i % kLines] += std::isnan(levels[i]) ? 0 : levels[i];
	for (uint32_t i = 0; i < kLines; i++)
		peak = sums[i] > sums[peak] ? i : peak;
	return peak + 1;
}

/* Which of so many frames are there, by their numbers; the spectrometer has their spectra. */
static std::vector<bool> receive(ibvcap_cuda *cuda, Spectrometer &spectrometer, size_t frames)
{
	std::vector<bool> there;
	int64_t last = -1;

	while (there.size() < frames) {
		struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
		int n = ibvcap_cuda_acquire(cuda, &batch, kRows, 1, -1);

		check(n > 0, "the stream", ibvcap_error_text());
		spectrometer.add(batch, read_frame(batch.rows.payload), batch.rows.meta[0].length);
		/* The CPU reads the numbers only. */
		for (int i = 0; i < n; i++) {
			const int64_t number = read_frame(batch.rows.payload + (size_t)i * batch.rows.stride).number;

			if (last >= 0 && number > last + 1)
				there.insert(there.end(), std::min<size_t>(number - last - 1, frames), false);
			there.push_back(true);
			last = number;
		}
		/* Returns at once; the lease ends when the stream has done what is queued on it now. */
		check(ibvcap_cuda_release(cuda, &batch, spectrometer.stream()) == 0, "a batch", ibvcap_error_text());
	}
	return there;
}

int main(int argc, char **argv)
{
	const size_t frames = argc > 3 ? strtoul(argv[3], nullptr, 10) : 1000;
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	struct ibvcap_rx *rx;
	struct ibvcap_cuda *cuda;

	if (argc < 3) {
		fprintf(stderr, "usage: spectrometer STREAM OUT.npy [FRAMES]\n");
		return 64;
	}
	options.start = IBVCAP_START_OLDEST;
	check(ibvcap_rx_open(nullptr, argv[1], &options, &rx) == 0, "open", ibvcap_error_text());
	check(ibvcap_cuda_open(rx, nullptr, &cuda) == 0, "the device", ibvcap_error_text());
	ibvcap_cuda_info(cuda, &info);
	fprintf(stderr, "%s\n", info.why);

	Spectrometer spectrometer(frames);
	std::vector<bool> there = receive(cuda, spectrometer, frames);
	std::vector<float> levels = levels_of(there, spectrometer.spectra());
	size_t missing = 0;

	levels.resize(frames * kLines);
	write_npy(argv[2], levels, frames);
	for (size_t i = 0; i < frames; i++)
		missing += !there[i];
	printf("%zu frames, %zu missing, peak in line %u\n", frames - missing, missing, peak_of(levels, frames));
	check(ibvcap_cuda_close(cuda, 1000) == 0, "close", ibvcap_error_text());
	ibvcap_rx_close(rx);
	return 0;
}
