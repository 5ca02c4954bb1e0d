/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include "unit.h"

struct pair {
    int a, b;
};

static void elements_keep_their_order_through_growth(void **state)
{
    (void)state;
    VEC(struct pair) v = {0};
    for (int i = 0; i < 1000; i++)
        vec_push(&v, (struct pair){i, -i});
    assert_int_equal(v.n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_true(v.v[i].a == i && v.v[i].b == -i);
    vec_done(&v);
    assert_true(v.v == NULL && v.n == 0 && v.cap == 0);
    vec_done(&v);
}

TEST_MAIN(TEST(elements_keep_their_order_through_growth))
