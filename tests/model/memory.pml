// SPDX-License-Identifier: Apache-2.0
/*
 * Weak memory for spin, which by itself knows only sequentially consistent interleavings. A store goes into its
 * thread's store buffer and becomes visible when the buffer lets go of it, at any later moment:
 *
 *   RLX  relaxed or plain: after earlier stores to the same address, before or after all others
 *   REL  release: after every earlier store of its thread
 *   SC   seq_cst: as release; a later seq_cst load of its thread waits until it is visible, others do not
 *
 * A load sees its own thread's newest store, else memory; loads go in program order. This is the memory of
 * ARMv8 (STLR, LDAR, LDAPR: one copy for everybody), weaker than x86's (where a seq_cst store empties the
 * buffer), and stronger than what C11's text admits of machines without a common order of stores.
 * Loads that run early are modelled where they matter, as variants with the steps exchanged.
 *
 * The file that includes this one defines THREADS, STORES_MAX (2 or 3; a store waits for room) and MEMORY_N.
 */
#define RLX 0
#define REL 1
#define SC  2

typedef Store {
	byte at; /* address + 1; 0 = none */
	byte value;
	byte order
};

typedef Buffer {
	byte n;
	byte n_sc;
	Store queued[STORES_MAX]
};

byte memory[MEMORY_N];
Buffer buffer[THREADS];

inline store(thread, address, with, as)
{
	d_step {
		buffer[thread].n < STORES_MAX;
		buffer[thread].queued[buffer[thread].n].at = (address) + 1;
		buffer[thread].queued[buffer[thread].n].value = with;
		buffer[thread].queued[buffer[thread].n].order = as;
		buffer[thread].n++;
		buffer[thread].n_sc = buffer[thread].n_sc + (as == SC)
	}
}

inline forward(thread, address, i, into)
{
	if
	:: buffer[thread].queued[i].at == (address) + 1 -> into = buffer[thread].queued[i].value
	:: else
	fi
}

/* A load of the given order: only SC and SC keep their order against earlier stores of the thread. */
inline load(thread, address, as, into)
{
	d_step {
		as != SC || buffer[thread].n_sc == 0;
		into = memory[address];
		forward(thread, address, 0, into);
#if STORES_MAX > 1
		forward(thread, address, 1, into);
#endif
#if STORES_MAX > 2
		forward(thread, address, 2, into)
#endif
	}
}

/* A read-modify-write with release, on memory itself: nothing of the thread is left behind it. */
inline add(thread, address, by)
{
	d_step {
		buffer[thread].n == 0;
		memory[address] = memory[address] + by
	}
}

inline shift(thread, i)
{
	buffer[thread].queued[i].at = buffer[thread].queued[i + 1].at;
	buffer[thread].queued[i].value = buffer[thread].queued[i + 1].value;
	buffer[thread].queued[i].order = buffer[thread].queued[i + 1].order
}

inline let_go(thread, i)
{
	memory[buffer[thread].queued[i].at - 1] = buffer[thread].queued[i].value;
	buffer[thread].n_sc = buffer[thread].n_sc - (buffer[thread].queued[i].order == SC);
#if STORES_MAX > 1
	if
	:: i < 1 -> shift(thread, 0)
	:: else
	fi;
#endif
#if STORES_MAX > 2
	if
	:: i < 2 -> shift(thread, 1)
	:: else
	fi;
#endif
	buffer[thread].n--;
	buffer[thread].queued[STORES_MAX - 1].at = 0;
	buffer[thread].queued[STORES_MAX - 1].value = 0;
	buffer[thread].queued[STORES_MAX - 1].order = 0
}

#define MAY_OVERTAKE(thread, i) \
	(buffer[thread].n > (i) && buffer[thread].queued[i].order == RLX && \
	 buffer[thread].queued[i].at != buffer[thread].queued[0].at)

/* One per thread: lets go of its stores. */
proctype Memory(byte thread)
{
end:
	do
	:: d_step { buffer[thread].n > 0; let_go(thread, 0) }
#if STORES_MAX > 1
	:: d_step { MAY_OVERTAKE(thread, 1); let_go(thread, 1) }
#endif
#if STORES_MAX > 2
	:: d_step {
		MAY_OVERTAKE(thread, 2) && buffer[thread].queued[2].at != buffer[thread].queued[1].at;
		let_go(thread, 2)
	   }
#endif
	od
}
